// What the worker says of a plan that it ran once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tilewright::autotune {

/// What a plan keeps of the weights of a problem that says `prepared`.
struct Preparation {
  std::int64_t bytes = 0;
  double microseconds = 0;  ///< of one run, from launch to end, cold caches included

  bool operator==(const Preparation&) const = default;
};

/// What running a plan once says about its results.
struct Verification {
  bool ok = true;
  std::string what;                        ///< the rule that was broken; empty if ok
  double error = 0;                        ///< normalized RMS against double precision, Gaussian activations
  std::optional<double> outlierError;      ///< of lossy plans: with 0.5 % of the channels at 30 times
  double microseconds = 0;                 ///< of the checked run, from launch to end, cold caches included
  std::optional<Preparation> preparation;  ///< of problems with prepared weights, if the plan has one
};

}  // namespace tilewright::autotune
