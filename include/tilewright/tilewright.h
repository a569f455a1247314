/* Tilewright: tuned GPU kernels for quantized transformer inference. The C interface of libtilewright.
 *
 *   tw_databases* databases;                                        // no driver, no CUDA context
 *   tw_databases_open((const char*[]){"h200.twdb"}, 1, &databases);
 *   tw_runtime_options options = {.struct_bytes = sizeof options, .device = "cuda:0", .databases = databases};
 *   tw_runtime* runtime;
 *   tw_runtime_open(&options, &runtime);
 *   tw_problem problem = {.operation = TW_Q4K_LINEAR, .n = 14336, .k = 4096, .m = 512};
 *   const tw_plan* plan;
 *   tw_bind(runtime, &problem, &plan);                              // loads, or compiles; once for each problem
 *   tw_linear_operands operands = {.x = x, .x_stride = 4096, .w = w, .out = out, .out_stride = 14336};
 *   tw_buffers buffers = {.workspace = workspace, .workspace_bytes = tw_workspace_bytes(plan)};
 *   tw_launch_linear(plan, &operands, &buffers, stream);            // stream-ordered, capturable in a CUDA graph
 *
 * Units: sizes and strides are in elements, memory in bytes, times in microseconds. All addresses are on the device
 * that the runtime was opened for. Structures are zero-initialized by the caller, who sets what differs; those with
 * `struct_bytes` carry their size, so that later versions can append fields.
 *
 * Threads: every function may be called from several threads at once, on the same objects too, except that nothing may
 * use an object while it is being closed.
 *
 * Errors: a function that can fail returns a tw_status. tw_error_message() then has the words for the calling thread:
 * what was attempted, with which values, and which rule failed. Output parameters are left alone on failure. */
#ifndef TILEWRIGHT_TILEWRIGHT_H
#define TILEWRIGHT_TILEWRIGHT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TW_API __attribute__((visibility("default")))
#else
#define TW_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* --- Version and errors --- */

#define TW_VERSION_MAJOR 0
#define TW_VERSION_MINOR 1
#define TW_VERSION_PATCH 0

/* The library's version, "0.1.0". */
TW_API const char* tw_version(void);

typedef enum tw_status {
  TW_OK = 0,
  TW_INVALID_ARGUMENT = 1, /* the caller's values break a rule that the message names */
  TW_UNSUPPORTED = 2,      /* a valid request that no template, target or build covers */
  TW_NOT_FOUND = 3,        /* no such file or device */
  TW_UNAVAILABLE = 4,      /* a driver or library is missing, or a file is locked; may succeed elsewhere or later */
  TW_CORRUPT = 5,          /* stored bytes contradict their hash or schema */
  TW_VERSION_MISMATCH = 6, /* a database of another schema, or a libtilewright_jit of another version */
  TW_IO = 7,               /* the operating system refused: permissions, no space */
  TW_OUT_OF_MEMORY = 8,    /* host or device memory */
  TW_COMPILE = 9,          /* a compiler refused a kernel; tw_error_log() has its words */
  TW_DEVICE = 10,          /* the driver reported an error, or a kernel faulted */
  TW_TIMEOUT = 11,
  TW_INTERNAL = 12 /* a mistake of this library */
} tw_status;

/* "invalid_argument"; "unknown" for a number that is no status. */
TW_API const char* tw_status_name(int status);

/* Of the calling thread's last call that failed; empty before. Valid until its next call that fails. */
TW_API const char* tw_error_message(void);
/* A compiler's output behind that failure, or empty. */
TW_API const char* tw_error_log(void);

/* --- Opening --- */

typedef struct tw_databases tw_databases; /* tuning databases, stacked */
typedef struct tw_jit tw_jit;             /* compilers, made by libtilewright_jit */
typedef struct tw_runtime tw_runtime;     /* a device with databases, compilers and bound plans */
typedef struct tw_plan tw_plan;           /* what runs for one problem; lives as long as its runtime */

/* Opens files for reading, from the one that is asked first to the last. Touches no device. TW_NOT_FOUND, TW_CORRUPT,
 * TW_VERSION_MISMATCH, TW_IO name the file. */
TW_API tw_status tw_databases_open(const char* const* paths, size_t count, tw_databases** databases);
/* Runtimes opened with it keep what they need. Null is allowed. */
TW_API void tw_databases_close(tw_databases* databases);

/* The only function of libtilewright_jit: the compilers of that library. Never fails for a missing one (no libnvrtc, a
 * build without MLIR): problems that need it say so. TW_INVALID_ARGUMENT for a null `jit` and TW_OUT_OF_MEMORY come
 * without a message. libtilewright runs without: from the binaries in its databases. */
TW_API tw_status tw_jit_open(tw_jit** jit);
/* No runtime opened with it may be open. Null is allowed. */
TW_API void tw_jit_close(tw_jit* jit);

typedef struct tw_runtime_options {
  size_t struct_bytes;           /* sizeof(tw_runtime_options) */
  const char* device;            /* "cpu", or "cuda:<number>" */
  const tw_databases* databases; /* null: none */
  const tw_jit* jit;             /* null: no compilers; must outlive the runtime */
  const char* build_cache; /* a database that keeps what the compilers make, so that the next start compiles nothing
                            * again; made if it is not there, shared by any number of processes; null: none */
} tw_runtime_options;

/* Opens the device and reads the winners of its kind from the databases. TW_NOT_FOUND for a device that is not there,
 * TW_UNAVAILABLE without a driver, TW_VERSION_MISMATCH for compilers of another version; for a build cache as for
 * databases. */
TW_API tw_status tw_runtime_open(const tw_runtime_options* options, tw_runtime** runtime);
/* No launch may be running. Null is allowed. */
TW_API void tw_runtime_close(tw_runtime* runtime);
/* What was passed over in the databases, one line each; null past the end. Valid until the runtime is closed. */
TW_API const char* tw_runtime_warning(const tw_runtime* runtime, size_t index);

/* --- Problems --- */

typedef enum tw_operation {
  TW_Q4K_LINEAR = 0, /* out[m, n] = x[m, k] . W[n, k]^T (+ bias[n]); W in GGUF Q4_K super-blocks, the rest BF16 */
  TW_LINEAR = 1,     /* the same with BF16 weights */
  TW_ATTENTION = 2   /* softmax(scale . Q K^T + mask) V in BF16 */
} tw_operation;

/* The loosest arithmetic that the caller allows. */
typedef enum tw_precision {
  TW_EXACT = 0, /* BF16 or better */
  TW_FP8 = 1,   /* activations and weights rounded to E4M3 */
  TW_INT8 = 2,  /* activations and weights rounded to 8-bit integers */
  TW_FAST = 3   /* whichever is fastest */
} tw_precision;

/* What the caller promises about addresses. */
typedef enum tw_alignment {
  TW_ALIGNED_16 =
      0, /* bases and leading strides are multiples of 16 bytes, inner strides 1, attention's scale is positive:
            what fast kernels need.
            Operands that break the promise are noticed and run on the other path, with the same result. */
  TW_ALIGNED_ANY = 1 /* element alignment, any strides */
} tw_alignment;

/* Sizes from 0 (m, batch, q_len, kv_len) or 1 (the others) to 2^40. */
typedef struct tw_problem {
  int32_t operation; /* tw_operation */
  int32_t alignment; /* tw_alignment */
  int32_t precision; /* tw_precision; q4k_linear alone */
  int32_t bias;      /* linear operations: 1 if bias[n] is added */
  int64_t m, n, k;   /* linear operations; k a multiple of 256 for q4k_linear */
  int32_t prepared;  /* q4k_linear: 1 if the caller prepares the weights once (tw_prepare_weights, where
                      * tw_prepared_bytes is above 0) and gives the result with every call. The winner is then the one
                      * that was measured so; a plan may keep a copy of W of n k bytes. 0: a plan prepares in the call
                      * what it needs, unless it is given it */
  int64_t batch;     /* attention, from here on */
  int64_t q_heads;   /* a multiple of kv_heads */
  int64_t kv_heads;
  int64_t head_dim; /* a multiple of 8 from 8 to 256 */
  int64_t q_len;
  int64_t kv_len;      /* a hint for look-up and grid; what counts is read on the device */
  int32_t causal;      /* 1: key j is visible to row i iff j <= kv_len - q_len + i */
  int32_t log_sum_exp; /* 1: lse is written too */
} tw_problem;

/* --- Plans --- */

/* Looks a problem up and makes its kernels ready: loads them from a database, or compiles them, which may take seconds.
 * The first call for a problem does the work, later ones return the same plan; it stays until the runtime is closed, so
 * callers whose kv_len grows with every call pass a rounded hint. TW_UNSUPPORTED names what refused the
 * problem and what is missing; TW_COMPILE, TW_CORRUPT, TW_DEVICE if nothing else was left to try. */
TW_API tw_status tw_bind(tw_runtime* runtime, const tw_problem* problem, const tw_plan** plan);

/* Binds many problems, compiling on all cores: afterwards none of them loads or compiles anything at a launch. Goes on
 * behind a failure; the status is that of the first problem that failed. */
TW_API tw_status tw_prepare(tw_runtime* runtime, const tw_problem* problems, size_t count);

typedef enum tw_provenance {
  TW_MEASURED = 0, /* a winner measured for this problem on this device */
  TW_NEAREST = 1,  /* won, and beat the default, at the nearest measured problems below and above */
  TW_DEFAULT = 2   /* not measured: the template's default */
} tw_provenance;

typedef struct tw_plan_info {
  size_t struct_bytes; /* sizeof(tw_plan_info), set by the caller */
  tw_provenance provenance;
  const char* template_id;       /* "attention.tma_sm90" */
  const char* configuration;     /* "tile_m=128 stages=4" */
  const char* reason;            /* a sentence */
  const char* binary;            /* where its code came from */
  double median_microseconds;    /* of the winner when it was tuned; 0 if not measured */
  double default_microseconds;   /* of the default in the same race; 0 if not measured */
  double runner_up_microseconds; /* of the next best in the same race; 0 if not measured */
  double error;                  /* normalized RMS against double precision when it was tuned; NaN if not measured */
  int64_t workspace_bytes;
  const char* prepared_format; /* as tw_prepared_format */
  int64_t prepared_bytes;
  const char* activation_format; /* as tw_activation_format */
  int64_t activation_bytes;
} tw_plan_info;

/* The texts live as long as the plan. */
TW_API tw_status tw_describe(const tw_plan* plan, tw_plan_info* info);

/* Scratch memory of one call, aligned to 256 bytes; may be 0. Calls on different streams need their own. */
TW_API int64_t tw_workspace_bytes(const tw_plan* plan);
/* How the plan keeps weights that tw_prepare_weights makes, such as "bounds+s8"; empty if it has no use for them. The
 * bytes depend on this, n, k and W alone. A plan can be given what another one for equal n and k prepared if its format
 * is the same, or begins the other's up to a '+': plans of "bounds" and of "bounds+s8" run on one buffer of
 * "bounds+s8". Lives as long as the plan. */
TW_API const char* tw_prepared_format(const tw_plan* plan);
/* What tw_prepare_weights fills; 0 if the plan has no use for it, whatever its problem says. */
TW_API int64_t tw_prepared_bytes(const tw_plan* plan);

/* How the plan stores activations that tw_quantize_activations makes, such as "s8/token"; empty if it takes none. Two
 * plans share them exactly if their formats (compare the texts), m and k are equal. Lives as long as the plan. */
TW_API const char* tw_activation_format(const tw_plan* plan);
/* What tw_quantize_activations fills: the same for all plans that share; 0 without a format. */
TW_API int64_t tw_activation_bytes(const tw_plan* plan);

/* What would run for a problem, from which database, why, and what refused the others: one JSON object, as `tilewright
 * explain --json` prints it but without the record and the binaries of the chosen plan, and with the remarks that the
 * program prints beside it as `notes` and `warnings`; written to `text` with a terminating zero if it fits `capacity`
 * bytes. `length`, which may be null, receives its length without the zero; TW_INVALID_ARGUMENT if it does not fit (ask
 * with capacity 0 and a null text for the length: that is TW_OK). Loads nothing. */
TW_API tw_status tw_explain(tw_runtime* runtime, const tw_problem* problem, char* text, size_t capacity,
                            size_t* length);

/* --- Launching --- */

/* The caller's memory of one call. */
typedef struct tw_buffers {
  void* workspace;             /* aligned to 256 bytes; null if the plan needs none */
  int64_t workspace_bytes;     /* at least tw_workspace_bytes(plan) */
  const void* prepared;        /* filled by tw_prepare_weights, or null; never null if the problem says `prepared` and
                                * tw_prepared_bytes(plan) is above 0; plans that have no use for it do not look at it */
  const tw_plan* prepared_by;  /* the plan that filled `prepared`; null: the one that is launched */
  const void* activations;     /* filled by tw_quantize_activations; null: the call quantizes x, if the plan does */
  const tw_plan* quantized_by; /* the plan that filled `activations`: this one, or one that shares them */
} tw_buffers;

typedef struct tw_linear_operands {
  const void* x;      /* BF16 [m, k] */
  int64_t x_stride;   /* of rows; at least k */
  const void* w;      /* [n, k] without gaps: Q4_K super-blocks (144 bytes for 256 weights), or BF16 */
  const void* bias;   /* BF16 [n]; null exactly when the problem has none */
  void* out;          /* BF16 [m, n] */
  int64_t out_stride; /* of rows; at least n */
} tw_linear_operands;

/* Strides of a [batch, heads, length, head_dim] tensor; `column` is 1 in a usual layout. */
typedef struct tw_strides {
  int64_t batch, head, row, column;
} tw_strides;

typedef struct tw_attention_operands {
  const void* q;         /* BF16 [batch, q_heads, q_len, head_dim] */
  const void* k;         /* BF16 [batch, kv_heads, capacity, head_dim] */
  const void* v;         /* the same */
  void* out;             /* BF16 [batch, q_heads, q_len, head_dim]; its elements must not overlap */
  float* lse;            /* [batch, q_heads, q_len] without gaps, natural logarithm; null exactly when not asked for */
  const int32_t* kv_len; /* [batch], read on the device and clamped to [0, capacity]; null: capacity */
  int64_t capacity;
  float scale; /* of Q K^T, usually 1 / sqrt(head_dim) */
  tw_strides q_stride, k_stride, v_stride, out_stride;
} tw_attention_operands;

/* Enqueue one call on `stream`, a CUstream (null: the default stream; ignored by the CPU, which has finished on
 * return). They allocate nothing, synchronize nothing and may be captured in a CUDA graph. TW_INVALID_ARGUMENT names
 * the operand and the rule: null, not aligned to its element, overlapping output, spanning more than the device has,
 * memory of another device (looked at by a plan's first launch), too small a workspace, missing prepared weights of a
 * problem that promises them, a plan of another operation. */
TW_API tw_status tw_launch_linear(const tw_plan* plan, const tw_linear_operands* operands, const tw_buffers* buffers,
                                  void* stream);
TW_API tw_status tw_launch_attention(const tw_plan* plan, const tw_attention_operands* operands,
                                     const tw_buffers* buffers, void* stream);

/* Look the problem up and launch, in one call. Binds the problem if nobody has; during a stream capture it must be
 * bound. */
TW_API tw_status tw_linear(tw_runtime* runtime, const tw_problem* problem, const tw_linear_operands* operands,
                           const tw_buffers* buffers, void* stream);
TW_API tw_status tw_attention(tw_runtime* runtime, const tw_problem* problem, const tw_attention_operands* operands,
                              const tw_buffers* buffers, void* stream);

/* Enqueues the one-time preparation of `w` into `prepared` (tw_prepared_bytes(plan), aligned to 256 bytes), for
 * tw_buffers.prepared of later calls. One buffer serves all plans for this W that can be given it (tw_prepared_format),
 * so an engine prepares once per layer, with the plan of the longest format among those of its row counts:
 *
 *   tw_prepare_weights(longest, w, prepared, tw_prepared_bytes(longest), stream);
 *   buffers.prepared = prepared;
 *   buffers.prepared_by = longest;
 *   tw_launch_linear(plan, &operands, &buffers, stream);
 *
 * Plans of "bounds+s8" and of "bounds+e4m3" need a buffer each. TW_INVALID_ARGUMENT if the plan has no preparation, if
 * w or the buffer is null, misaligned or too small; of launches, if the plan of prepared_by prepares what does not
 * serve the launched one. */
TW_API tw_status tw_prepare_weights(const tw_plan* plan, const void* w, void* prepared, int64_t prepared_bytes,
                                    void* stream);

/* Enqueues the quantization of x (BF16 [m, k] of the plan's problem, rows of x_stride elements) into `activations`
 * (tw_activation_bytes(plan), aligned to 256 bytes), for tw_buffers.activations of every layer that reads this x:
 *
 *   tw_quantize_activations(query, x, x_stride, activations, tw_activation_bytes(query), stream);
 *   buffers.activations = activations;
 *   buffers.quantized_by = query;
 *   tw_launch_linear(query, &query_operands, &buffers, stream);
 *   if (strcmp(tw_activation_format(key), tw_activation_format(query)) != 0) buffers.activations = NULL;
 *   tw_launch_linear(key, &key_operands, &buffers, stream);
 *
 * Results have the same bits as without. Like a launch it is stream-ordered, allocates nothing and may be captured in a
 * CUDA graph, with the launches or alone; work on other streams must be made to wait for it. The buffer is the caller's
 * and stays as it was filled: launches may read it any number of times, on several streams at once, whatever happens to
 * the plan's workspace. x must keep its values as long, for operands that are not aligned to 16 bytes run on a path
 * that reads it. TW_INVALID_ARGUMENT if the plan has no format, if x is null or it or its stride no multiple of 16
 * bytes, if the buffer is null, misaligned or too small; of launches, if quantized_by is null or its plan does not
 * share with the launched one. With m = 0 nothing is enqueued. */
TW_API tw_status tw_quantize_activations(const tw_plan* plan, const void* x, int64_t x_stride, void* activations,
                                         int64_t activation_bytes, void* stream);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TILEWRIGHT_TILEWRIGHT_H */
