/* Runs one linear layer on the CPU, out[m, n] = x[m, k] . W[n, k]^T + bias[n], and checks the result.
 *
 *   run_linear [--jit libtilewright_jit.so] [database.twdb ...]
 *
 * The program links libtilewright alone. Compilers are an optional second library, opened here by dlopen; without them
 * the kernels' machine code comes from the databases. On a GPU everything is the same, with device "cuda:0" and
 * addresses of device memory. Exit status: 0 done and right, 1 wrong or failed, 2 this problem cannot run with what was
 * given. */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tilewright/tilewright.h>

enum { kM = 5, kN = 48, kK = 64 };

/* BF16 is the upper half of an FP32; truncation is exact for the small integers used here. */
static uint16_t toBf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}

static float fromBf16(uint16_t bf16) {
  const uint32_t bits = (uint32_t)bf16 << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Ends the program if a call failed. */
static void check(tw_status status, const char* what) {
  if (status == TW_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, tw_status_name(status), tw_error_message());
  exit(status == TW_UNSUPPORTED ? 2 : 1);
}

static tw_jit* openJit(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  tw_status (*open)(tw_jit**) = (tw_status (*)(tw_jit**))dlsym(library, "tw_jit_open");
  tw_jit* jit = NULL;
  if (open == NULL || open(&jit) != TW_OK) {
    fprintf(stderr, "%s is no libtilewright_jit\n", path);
    exit(1);
  }
  return jit;
}

int main(int count, char** arguments) {
  printf("tilewright %s\n", tw_version());
  tw_jit* jit = NULL;
  int next = 1;
  if (count > 2 && strcmp(arguments[1], "--jit") == 0) {
    jit = openJit(arguments[2]);
    next = 3;
  }

  /* Open the databases, from the one that is asked first, and the device. */
  tw_databases* databases = NULL;
  check(tw_databases_open((const char* const*)(arguments + next), (size_t)(count - next), &databases), "databases");
  const tw_runtime_options options = {
      .struct_bytes = sizeof options, .device = "cpu", .databases = databases, .jit = jit};
  tw_runtime* runtime = NULL;
  check(tw_runtime_open(&options, &runtime), "runtime");

  /* Look the problem up; this loads or compiles its kernel. */
  const tw_problem problem = {.operation = TW_LINEAR, .bias = 1, .m = kM, .n = kN, .k = kK};
  const tw_plan* plan = NULL;
  check(tw_bind(runtime, &problem, &plan), "bind");
  tw_plan_info info = {.struct_bytes = sizeof info};
  check(tw_describe(plan, &info), "describe");
  printf("%s {%s}: %s\n", info.template_id, info.configuration, info.reason);

  /* Fill the operands with small integers, so that the result is exact: rounding has nothing to do. */
  uint16_t* x = aligned_alloc(256, kM * kK * sizeof *x);
  uint16_t* w = aligned_alloc(256, kN * kK * sizeof *w);
  uint16_t* bias = aligned_alloc(256, 256);
  uint16_t* out = aligned_alloc(256, kM * kN * sizeof *out + 256 - kM * kN * sizeof *out % 256);
  void* workspace =
      info.workspace_bytes > 0 ? aligned_alloc(256, (size_t)(info.workspace_bytes + 255) / 256 * 256) : NULL;
  if (x == NULL || w == NULL || bias == NULL || out == NULL) return 1;
  for (int i = 0; i < kM * kK; ++i) x[i] = toBf16((float)(i % 3 - 1));
  for (int i = 0; i < kN * kK; ++i) w[i] = toBf16((float)(i % 5 - 2));
  for (int i = 0; i < kN; ++i) bias[i] = toBf16((float)(i % 7 - 3));

  const tw_linear_operands operands = {.x = x, .x_stride = kK, .w = w, .bias = bias, .out = out, .out_stride = kN};
  const tw_buffers buffers = {.workspace = workspace, .workspace_bytes = info.workspace_bytes};
  check(tw_launch_linear(plan, &operands, &buffers, NULL), "launch");

  int wrong = 0;
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      float expected = fromBf16(bias[n]);
      for (int k = 0; k < kK; ++k) expected += fromBf16(x[m * kK + k]) * fromBf16(w[n * kK + k]);
      wrong += fromBf16(out[m * kN + n]) != expected;
    }
  }
  printf("%d of %d elements are wrong\n", wrong, kM * kN);

  free(x), free(w), free(bias), free(out), free(workspace);
  tw_runtime_close(runtime);
  tw_databases_close(databases);
  tw_jit_close(jit);
  return wrong == 0 ? 0 : 1;
}
