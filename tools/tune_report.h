// What `tune` shows: progress on the way, a table of winners and what remains at the end, or a listing.
#pragma once

#include <string>

#include "autotune/sweep.h"

namespace tilewright {

/// "12.3 us +-0.4%": the median and half its interval's width.
std::string timeText(const autotune::Statistics& statistics);

/// The winners of this sweep, then what was done before, what was refused, what remains and why.
std::string sweepText(const autotune::SweepReport& report);
/// The listing {"version": 1, "outcomes": [...]} with the totals after the array.
std::string sweepListing(const autotune::SweepReport& report);
/// One line for a problem that ended.
std::string outcomeText(const autotune::ProblemOutcome& outcome);
/// One line for a sweep that is on its way, at most `width` characters.
std::string progressText(const autotune::SweepProgress& progress, std::size_t width);

/// "1:05", "2:10:05".
std::string durationText(double seconds);

}  // namespace tilewright
