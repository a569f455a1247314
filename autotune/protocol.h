// What the tuner and its worker process say to each other: one line of JSON per message over a socket pair. The bytes
// of a binary follow the line that announces it.
//
//   {"do": "start", "device": "cuda:0"}                          -> {"ok": true}
//   {"do": "open", "problem": {...}, "seed": 1}                  -> {"ok": true}
//   {"do": "binary", "hash": "9f...", ..., "bytes": 81920} BYTES    (no answer)
//   {"do": "prepare", "plan": 3, "template": "linear.portable", "configuration": {...}, "binaries": [...]}
//   {"do": "verify", "plan": 3}                                  -> {"ok": true, "verified": true, "error": 0.003, ...}
//   {"do": "measure", "plan": 3, "repeats": 5, ...}              -> {"ok": true, "microseconds": [12.5, ...]}
//   {"do": "release", "plan": 3}                                 -> {"ok": true}
//   any failure                                                  -> {"ok": false, "code": "device", "message": "..."}
//
// Both ends are the same program, so an unreadable message is a bug or a dying process, never a version to negotiate.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/workbench.h"
#include "base/problem.h"
#include "base/result.h"
#include "runtime/device.h"
#include "templates/configuration.h"

namespace tilewright::autotune {

struct WorkerRequest {
  enum class Kind { kStart, kOpen, kBinary, kPrepare, kVerify, kMeasure, kRelease };
  struct PlanPart {
    std::string hash;
    std::vector<std::string> entries;
  };

  Kind kind = Kind::kStart;
  std::string device;           ///< kStart
  Problem problem;              ///< kOpen
  OpenOptions open;             ///< kOpen
  Binary binary;                ///< kBinary; `bytes` travel after the line
  std::size_t byteCount = 0;    ///< kBinary, as announced
  int plan = 0;                 ///< kPrepare, kVerify, kMeasure, kRelease
  std::string templateId;       ///< kPrepare
  Configuration configuration;  ///< kPrepare
  std::vector<PlanPart> parts;  ///< kPrepare
  MeasureOptions measure;       ///< kMeasure
};

struct WorkerReply {
  Verification verification;         ///< to kPrepare and kVerify
  std::vector<double> microseconds;  ///< to kMeasure
};

/// One line with its newline.
std::string encodeRequest(const WorkerRequest& request);
Result<WorkerRequest> decodeRequest(std::string_view line);
std::string encodeReply(const Result<WorkerReply>& reply);
/// The worker's error if the reply is one; kInternal if the line is no reply.
Result<WorkerReply> decodeReply(std::string_view line);

}  // namespace tilewright::autotune
