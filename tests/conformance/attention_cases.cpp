// Cases of `attention`. Names are made of the edge and of q_len x kv_len.
//
// Where a size is another project's, the comment says whose: a size of its tests, or the input of a public bug report.
#include "tests/conformance/case.h"

namespace tilewright::conformance {
namespace {

using reference::headMajorStrides;
using reference::OperandOptions;
using reference::rowMajorStrides;
using reference::Scores;

/// Shapes default to what most cases use.
struct Size {
  std::int64_t batch = 1, qHeads = 4, kvHeads = 2, headDim = 64, qLen = 64, kvLen = 64;
  bool causal = true;
};

class CaseList {
 public:
  void add(std::string name, const Size& size, OperandOptions operands = {}) {
    AttentionShape shape{.batch = size.batch,
                         .qHeads = size.qHeads,
                         .kvHeads = size.kvHeads,
                         .headDim = size.headDim,
                         .qLen = size.qLen,
                         .kvLen = size.kvLen,
                         .causal = size.causal};
    // The log-sum-exp is asked for in every case but one of each kind of mask.
    shape.logSumExp = !name.starts_with("no_lse");
    operands.seed = ++seed_;
    cases_.push_back({.name = std::move(name),
                      .problem = {.operation = Operation::kAttention, .attention = shape},
                      .operands = std::move(operands)});
  }
  void addHuge(std::string name, const Size& size, OperandOptions operands = {}) {
    add(std::move(name), size, std::move(operands));
    cases_.back().huge = true;
  }
  /// A case that runs in configurations with every pair of parameter values.
  void addEveryPair(std::string name, const Size& size, OperandOptions operands = {}) {
    add(std::move(name), size, std::move(operands));
    cases_.back().everyPair = true;
  }
  /// Causal and full.
  void addBoth(const std::string& name, Size size, const OperandOptions& operands = {}) {
    size.causal = true;
    add(name + "_causal", size, operands);
    size.causal = false;
    add(name + "_full", size, operands);
  }
  std::vector<Case> take() { return std::move(cases_); }

 private:
  std::vector<Case> cases_;
  std::uint64_t seed_ = 0;
};

struct Lengths {
  std::int64_t qLen, kvLen;
};

void addLengths(CaseList& list) {
  // FA3's test_flash_attn.py, with its six query heads.
  for (const auto& [q, kv] : std::initializer_list<Lengths>{
           {1, 1},     {64, 128},  {128, 192},   {256, 256},   {239, 1},     {799, 3},     {113, 203},
           {113, 128}, {128, 217}, {113, 211},   {108, 256},   {256, 512},   {384, 256},   {640, 128},
           {512, 256}, {1, 3},     {2, 1},       {511, 1},     {3, 513},     {307, 256},   {64, 32},
           {255, 256}, {3, 3},     {1023, 1024}, {1024, 1023}, {1024, 1024}, {2048, 2048}, {4224, 4224}}) {
    const std::string name = fmt::format("fa3_{}x{}", q, kv);
    list.addBoth(name + "_d64", {.qHeads = 6, .kvHeads = 2, .headDim = 64, .qLen = q, .kvLen = kv});
    list.add(name + "_d128", {.qHeads = 6, .kvHeads = 1, .headDim = 128, .qLen = q, .kvLen = kv});
    list.add(name + "_d256", {.qHeads = 2, .kvHeads = 2, .headDim = 256, .qLen = q, .kvLen = kv});
  }
  for (const auto& [q, kv] : std::initializer_list<Lengths>{{113, 211}, {799, 3}, {1023, 1024}, {1024, 1023}}) {
    for (const std::int64_t d : {128, 256}) {
      list.add(fmt::format("fa3_{}x{}_d{}_full", q, kv, d),
               {.qHeads = 6, .kvHeads = 3, .headDim = d, .qLen = q, .kvLen = kv, .causal = false});
    }
  }
  // FA3's cache tests: few rows over a long cache.
  for (const auto& [q, kv] : std::initializer_list<Lengths>{
           {1, 128}, {1, 339}, {3, 1024}, {64, 800}, {3, 799}, {64, 2048}, {16, 20000}, {2048, 3577}, {1, 257}}) {
    list.add(fmt::format("fa3_cache_{}x{}", q, kv), {.qHeads = 8, .headDim = 128, .qLen = q, .kvLen = kv});
  }
  // FlashInfer's: odd lengths of either, groups of 4 and 7.
  for (const auto& [q, kv] : std::initializer_list<Lengths>{{37, 501},
                                                            {127, 2042},
                                                            {577, 3771},
                                                            {1024, 4932},
                                                            {17, 54},
                                                            {37, 97},
                                                            {127, 512},
                                                            {11, 11},
                                                            {99, 99},
                                                            {1763, 1763}}) {
    list.add(fmt::format("flashinfer_{}x{}", q, kv),
             {.qHeads = 4, .kvHeads = 1, .headDim = 128, .qLen = q, .kvLen = kv});
    list.add(fmt::format("flashinfer_{}x{}_group_7", q, kv),
             {.qHeads = 7, .kvHeads = 1, .headDim = 64, .qLen = q, .kvLen = kv, .causal = false});
  }
  // ExecuTorch's SDPA tests.
  for (const auto& [q, kv] : std::initializer_list<Lengths>{
           {1, 64}, {1, 512}, {4, 128}, {64, 64}, {64, 128}, {128, 128}, {2, 256}, {8, 256}, {4, 200}, {4, 4089}}) {
    list.add(fmt::format("executorch_{}x{}", q, kv), {.qHeads = 16, .headDim = 128, .qLen = q, .kvLen = kv});
  }
  // Around the tiles of usual kernels.
  for (const std::int64_t edge : {16, 32, 64, 80, 128, 192}) {
    for (const std::int64_t delta : {-1, 0, 1}) {
      list.add(fmt::format("tile_edge_{}", edge + delta),
               {.headDim = 128, .qLen = edge + delta, .kvLen = edge + delta});
      list.add(fmt::format("tile_edge_{}_long", edge + delta), {.qLen = edge + delta, .kvLen = 3 * edge + delta});
    }
  }
  // Long keys, few rows: what splits over the keys.
  list.add("decode_4096", {.qHeads = 32, .kvHeads = 8, .headDim = 128, .qLen = 1, .kvLen = 4096});
  list.add("decode_16384", {.qHeads = 32, .kvHeads = 8, .headDim = 128, .qLen = 1, .kvLen = 16384});
  list.add("decode_131072", {.qHeads = 16, .kvHeads = 2, .headDim = 128, .qLen = 1, .kvLen = 131072});
  list.add("prefill_512x16384", {.qHeads = 16, .kvHeads = 2, .headDim = 128, .qLen = 512, .kvLen = 16384});
  list.add("prefill_1024x16384_d256", {.qHeads = 16, .kvHeads = 2, .headDim = 256, .qLen = 1024, .kvLen = 16384});
  list.add("prefill_512x16384_d64", {.qHeads = 16, .kvHeads = 2, .headDim = 64, .qLen = 512, .kvLen = 16384});
  list.add("prefill_8192_d128", {.qHeads = 32, .kvHeads = 8, .headDim = 128, .qLen = 8192, .kvLen = 8192});
  list.add("no_lse_causal", {.headDim = 128, .qLen = 100, .kvLen = 300});
  list.add("no_lse_full", {.headDim = 128, .qLen = 100, .kvLen = 300, .causal = false});
  list.add("no_lse_decode", {.headDim = 128, .qLen = 1, .kvLen = 3000});
}

void addHeads(CaseList& list) {
  for (std::int64_t d = 8; d <= 256; d += 8) {
    list.addBoth(fmt::format("head_dim_{}", d), {.headDim = d, .qLen = 37, .kvLen = 101});
  }
  for (const auto& [q, kv] : {std::pair{4, 4}, {8, 4}, {14, 2}, {16, 2}, {16, 1}, {6, 3}, {5, 1}}) {
    for (const std::int64_t rows : {1, 5, 65}) {
      for (const std::int64_t d : {64, 128, 256}) {
        list.add(fmt::format("group_{}_of_{}_rows_{}_d{}", q / kv, kv, rows, d),
                 {.batch = 2, .qHeads = q, .kvHeads = kv, .headDim = d, .qLen = rows, .kvLen = 200});
      }
    }
  }
  list.add("batch_60", {.batch = 60, .qHeads = 2, .kvHeads = 1, .headDim = 40, .qLen = 5, .kvLen = 33});
  list.add("batch_8300_row_1",
           {.batch = 8300, .qHeads = 4, .kvHeads = 4, .headDim = 128, .qLen = 1, .kvLen = 1});  // FA 2260
}

void addKvLengths(CaseList& list) {
  // Different per entry, at tile edges, zero, beyond the buffer and negative (both clamped).
  const std::vector<std::int32_t> lengths{0,   1,   15,  16,  17,  63,  64,  65,      127, 128,
                                          129, 192, 255, 256, 299, 300, 301, 1 << 30, -1,  -1000};
  const auto batch = static_cast<std::int64_t>(lengths.size());
  for (const std::int64_t rows : {1, 4, 70}) {
    for (const std::int64_t d : {64, 128, 256}) {
      list.addBoth(fmt::format("kv_lengths_rows_{}_d{}", rows, d),
                   {.batch = batch, .qHeads = 2, .kvHeads = 1, .headDim = d, .qLen = rows, .kvLen = 200},
                   {.capacity = 300, .kvLens = lengths});
    }
  }
  list.addBoth("kv_zero", {.qLen = 9, .kvLen = 128}, {.capacity = 128, .kvLens = {0}});
  list.addBoth("kv_capacity_zero", {.qLen = 9, .kvLen = 0});
  list.addBoth("kv_one", {.headDim = 128, .qLen = 1, .kvLen = 128}, {.capacity = 128, .kvLens = {1}});
  // More rows than keys: the rows before the first key give zeros (FA 1778, FlashInfer 4452).
  list.addBoth("rows_beyond_keys", {.headDim = 128, .qLen = 300, .kvLen = 100});
  list.addBoth("rows_beyond_kv_length", {.headDim = 64, .qLen = 130, .kvLen = 200}, {.capacity = 200, .kvLens = {64}});
  list.add("executorch_all_masked", {.headDim = 128, .qLen = 512, .kvLen = 1024}, {.capacity = 1024, .kvLens = {128}});
  // A long buffer with little in it (ExecuTorch's garbage tail, its bottom-right cases).
  list.add("kv_509_of_131072", {.headDim = 128, .qLen = 1, .kvLen = 509}, {.capacity = 131072, .kvLens = {509}});
  list.add("kv_lengths_long_rows_1", {.batch = 2, .qHeads = 8, .headDim = 128, .qLen = 1, .kvLen = 9000},
           {.capacity = 65536, .kvLens = {9000, 300}});
  list.add("kv_lengths_long_rows_70", {.batch = 2, .qHeads = 8, .headDim = 128, .qLen = 70, .kvLen = 9000},
           {.capacity = 20000, .kvLens = {9000, 300}});
  list.add("kv_8192_of_131072", {.headDim = 128, .qLen = 1, .kvLen = 8192}, {.capacity = 131072, .kvLens = {8192}});
  for (const auto& [q, kv, capacity] : {std::tuple{128, 128, 256},
                                        {64, 200, 256},
                                        {32, 96, 512},
                                        {64, 64, 128},
                                        {2, 131, 256},
                                        {1, 64, 512},
                                        {1, 300, 512},
                                        {1, 511, 512}}) {
    list.add(fmt::format("executorch_bottom_right_{}x{}_of_{}", q, kv, capacity),
             {.qHeads = 16, .headDim = 128, .qLen = q, .kvLen = kv}, {.capacity = capacity, .kvLens = {kv}});
  }
  // The hint may be wrong in either direction: the truth is on the device.
  list.add("hint_too_small", {.headDim = 128, .qLen = 20, .kvLen = 16}, {.capacity = 500, .kvLens = {500}});
  list.add("hint_too_large", {.headDim = 128, .qLen = 20, .kvLen = 4000}, {.capacity = 500, .kvLens = {100}});
  list.add("hint_zero", {.headDim = 64, .qLen = 1, .kvLen = 0}, {.capacity = 500, .kvLens = {450}});
  // Empty problems (FA 2503, 2515; candle).
  list.addBoth("batch_zero", {.batch = 0, .qLen = 5, .kvLen = 7});
  list.addBoth("rows_zero", {.batch = 2, .qLen = 0, .kvLen = 7});
  list.add("batch_zero_kv_zero", {.batch = 0, .qLen = 0, .kvLen = 0});
}

void addLayouts(CaseList& list) {
  struct Layout {
    std::string_view name;
    OperandOptions operands;
  };
  for (const std::int64_t d : {64, 128, 256, 72}) {
    for (const std::int64_t rows : {1, 50}) {
      const std::int64_t heads = 4, kvHeads = 2, capacity = 90;
      const Strides tokensQ = rowMajorStrides(heads, rows, d), tokensKv = rowMajorStrides(kvHeads, capacity, d);
      const Strides padded = headMajorStrides(kvHeads, capacity, d, 8), odd = headMajorStrides(kvHeads, capacity, d, 1);
      const Strides oddQ = headMajorStrides(heads, rows, d, 1);
      const Strides everySecondQ{.batch = heads * rows * d * 2, .head = rows * d * 2, .row = d * 2, .column = 2};
      const Strides everySecond{
          .batch = kvHeads * capacity * d * 2, .head = capacity * d * 2, .row = d * 2, .column = 2};
      const Strides columnMajor{.batch = kvHeads * capacity * d, .head = capacity * d, .row = 1, .column = capacity};
      const Strides sharedHeads{.batch = capacity * d, .head = 0, .row = d};
      const Strides sharedBatch{.batch = 0, .head = capacity * d, .row = d}, sharedAll{.batch = 0, .head = 0, .row = d};
      const std::vector<std::int32_t> lengths{77, 90};
      const std::vector<Layout> layouts{
          {"tokens_first", {.qStrides = tokensQ, .kStrides = tokensKv, .vStrides = tokensKv, .outStrides = tokensQ}},
          {"tokens_first_q", {.qStrides = tokensQ}},
          {"tokens_first_out", {.outStrides = tokensQ}},
          {"cache_padded", {.kStrides = padded, .vStrides = padded}},
          {"k_and_v_differ", {.kStrides = padded, .vStrides = tokensKv}},
          {"stride_odd", {.qStrides = oddQ, .kStrides = odd, .vStrides = odd, .outStrides = oddQ}},
          {"stride_odd_v", {.vStrides = odd}},
          {"inner_stride_two",
           {.qStrides = everySecondQ, .kStrides = everySecond, .vStrides = everySecond, .outStrides = everySecondQ}},
          {"column_major_k", {.kStrides = columnMajor}},
          {"kv_heads_shared", {.kStrides = sharedHeads, .vStrides = sharedHeads}},
          {"kv_batch_shared", {.kStrides = sharedBatch, .vStrides = sharedBatch}},
          {"kv_all_shared", {.kStrides = sharedAll, .vStrides = sharedAll}},
          {"base_16_bytes", {.baseOffset = 8}},
          {"base_odd", {.baseOffset = 1}},
          {"base_odd_tokens_first",
           {.baseOffset = 5, .qStrides = tokensQ, .kStrides = tokensKv, .vStrides = tokensKv, .outStrides = tokensQ}},
      };
      for (const auto& [name, operands] : layouts) {
        OperandOptions with = operands;
        with.capacity = capacity, with.kvLens = lengths;
        list.add(fmt::format("{}_d{}_rows_{}", name, d, rows),
                 {.batch = 2, .qHeads = heads, .kvHeads = kvHeads, .headDim = d, .qLen = rows, .kvLen = capacity},
                 with);
      }
    }
  }
}

void addScores(CaseList& list) {
  for (const std::int64_t d : {64, 128, 256}) {
    for (const auto& [rows, keys] : {std::pair{1, 1}, {1, 300}, {40, 300}, {1, 5000}}) {  // FlashInfer 4451: one key
      list.addBoth(fmt::format("scores_-524288_d{}_{}x{}", d, rows, keys), {.headDim = d, .qLen = rows, .kvLen = keys},
                   {.scores = Scores::kDeeplyNegative});
    }
    // A sharp softmax, a flat one, and a negative factor.
    list.add(fmt::format("scale_4_d{}", d), {.headDim = d, .qLen = 70, .kvLen = 300}, {.scale = 4});
    list.add(fmt::format("scale_0.05_d{}", d), {.headDim = d, .qLen = 70, .kvLen = 300}, {.scale = 0.05F});
    list.add(fmt::format("scale_1e-6_d{}", d), {.headDim = d, .qLen = 70, .kvLen = 300}, {.scale = 1e-6F});
    list.add(fmt::format("scale_-0.1_d{}", d), {.headDim = d, .qLen = 70, .kvLen = 300}, {.scale = -0.1F});
  }
}

void addEveryPair(CaseList& list) {
  // Groups of 16, which every way to share keys divides. For each head dim, one row and few for the decode templates,
  // many for the others:
  // * per-entry lengths: nothing, one key, whole and cut tiles, beyond the buffer; more rows than keys;
  // * FA3's tails;
  // * few tiles over long keys, which stream-K cuts, and more tiles than any GPU has units, which leaves a last wave;
  // * the deepest scores; tokens first in a padded cache.
  for (const std::int64_t d : {64, 128, 256}) {
    const Size size{.qHeads = 32, .kvHeads = 2, .headDim = d};
    const auto add = [&](std::string_view name, std::int64_t batch, std::int64_t qLen, std::int64_t kvLen,
                         const OperandOptions& operands = {}) {
      Size with = size;
      with.batch = batch, with.qLen = qLen, with.kvLen = kvLen;
      list.addEveryPair(fmt::format("every_pair_{}_{}x{}_d{}", name, qLen, kvLen, d), with, operands);
    };
    for (const std::int64_t rows : {1, 16, 200}) {
      add("lengths", 7, rows, 1500, {.capacity = 1500, .kvLens = {1500, 0, 1, 640, 199, 1501, 33}});
      add("long", 3, rows, 5000, {.capacity = 9000, .kvLens = {8999, 4096, 0}});
    }
    for (const auto& [q, kv] : std::initializer_list<Lengths>{{113, 211}, {799, 3}, {1023, 1024}, {1024, 1023}}) {
      add("tail", 1, q, kv);
    }
    add("waves", 3, 700, 900);
    add("cut", 1, 96, 9001);
    for (const std::int64_t rows : {2, 40}) {
      const std::int64_t capacity = 390;
      const Strides q = rowMajorStrides(size.qHeads, rows, d), kv = rowMajorStrides(size.kvHeads, capacity, d, 8);
      add("tokens_first", 2, rows, capacity,
          {.baseOffset = 8,
           .capacity = capacity,
           .kvLens = {390, 301},
           .qStrides = q,
           .kStrides = kv,
           .vStrides = kv,
           .outStrides = q});
      add("scores_-524288", 1, rows, 3000, {.scores = Scores::kDeeplyNegative});
    }
  }
}

void addHuge(CaseList& list) {
  // FA 2611: rows times stride beyond 2^31, of q and of out.
  const Strides rows{.batch = 9728LL * 225304, .head = 64, .row = 9728};
  list.addHuge("huge_rows", {.qHeads = 2, .kvHeads = 1, .headDim = 64, .qLen = 225304, .kvLen = 70},
               {.qStrides = rows, .outStrides = rows});
  // A cache of more than 2^31 elements, few of them in use: the last key lies beyond.
  const Strides cache{.batch = std::int64_t{1} << 32, .head = 128, .row = std::int64_t{1} << 24};
  list.addHuge("huge_cache", {.qHeads = 4, .kvHeads = 2, .headDim = 128, .qLen = 5, .kvLen = 150},
               {.kStrides = cache, .vStrides = cache});
  list.addHuge("huge_cache_decode", {.qHeads = 4, .kvHeads = 2, .headDim = 64, .qLen = 1, .kvLen = 150},
               {.kStrides = cache, .vStrides = cache});
  // llama.cpp 13376, FA 2260: many batch entries.
  list.addHuge("huge_batch", {.batch = 140000, .qHeads = 16, .kvHeads = 16, .headDim = 128, .qLen = 1, .kvLen = 8});
}

}  // namespace

std::vector<Case> attentionCases() {
  CaseList list;
  addLengths(list);
  addHeads(list);
  addKvLengths(list);
  addLayouts(list);
  addScores(list);
  addEveryPair(list);
  addHuge(list);
  return list.take();
}

}  // namespace tilewright::conformance
