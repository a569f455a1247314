"""libtilewright's C interface (include/tilewright/tilewright.h) through ctypes, as an engine would use it from Python."""
import ctypes as c
import json

OPERATIONS = {"q4k_linear": 0, "linear": 1, "attention": 2}
PRECISIONS = {"exact": 0, "fp8": 1, "int8": 2, "fast": 3}
PROVENANCES = ("measured", "nearest", "default")


class _Problem(c.Structure):
    _fields_ = ([(name, c.c_int) for name in ("operation", "alignment", "precision")] + [("bias", c.c_int32)]
                + [(name, c.c_int64) for name in ("m", "n", "k")] + [("prepared", c.c_int32)]
                + [(name, c.c_int64) for name in ("batch", "q_heads", "kv_heads", "head_dim", "q_len", "kv_len")]
                + [("causal", c.c_int32), ("log_sum_exp", c.c_int32)])


class _RuntimeOptions(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("device", c.c_char_p), ("databases", c.c_void_p), ("jit", c.c_void_p),
                ("build_cache", c.c_char_p)]


class _PlanInfo(c.Structure):
    _fields_ = ([("struct_bytes", c.c_size_t), ("provenance", c.c_int)]
                + [(name, c.c_char_p) for name in ("template_id", "configuration", "reason", "binary")]
                + [(name, c.c_double) for name in ("median_microseconds", "default_microseconds", "runner_up_microseconds", "error")]
                + [("workspace_bytes", c.c_int64), ("prepared_format", c.c_char_p), ("prepared_bytes", c.c_int64),
                   ("activation_format", c.c_char_p), ("activation_bytes", c.c_int64)])


class _Buffers(c.Structure):
    _fields_ = [("workspace", c.c_void_p), ("workspace_bytes", c.c_int64), ("prepared", c.c_void_p), ("prepared_by", c.c_void_p),
                ("activations", c.c_void_p), ("quantized_by", c.c_void_p)]


class _LinearOperands(c.Structure):
    _fields_ = [("x", c.c_void_p), ("x_stride", c.c_int64), ("w", c.c_void_p), ("bias", c.c_void_p), ("out", c.c_void_p),
                ("out_stride", c.c_int64)]


class _Strides(c.Structure):
    _fields_ = [(name, c.c_int64) for name in ("batch", "head", "row", "column")]


class _AttentionOperands(c.Structure):
    _fields_ = ([(name, c.c_void_p) for name in ("q", "k", "v", "out", "lse", "kv_len")]
                + [("capacity", c.c_int64), ("scale", c.c_float)]
                + [(name, _Strides) for name in ("q_stride", "k_stride", "v_stride", "out_stride")])


def native(problem):
    """The struct of a problem in the project's JSON form."""
    result = _Problem(operation=OPERATIONS[problem["op"]], alignment=1 if problem.get("alignment") == "any" else 0,
                      precision=PRECISIONS[problem.get("precision", "exact")], bias=int(problem.get("bias", False)),
                      prepared=int(problem.get("prepared", False)), causal=int(problem.get("causal", False)),
                      log_sum_exp=int(problem.get("lse", False)))
    for name in ("m", "n", "k", "batch", "q_heads", "kv_heads", "head_dim", "q_len", "kv_len"):
        setattr(result, name, problem.get(name, 0))
    return result


class Failure(RuntimeError):
    """A call that did not return TW_OK; its text is the library's message."""


class Runtime:
    """A device with databases and, if `jit_path` is given, compilers, which keep what they make in `build_cache` (a path), so that
    plans of the same kernels compile them once. Everything it opened lives until the process ends."""

    def __init__(self, library_path, databases=(), jit_path=None, device="cuda:0", build_cache=None):
        self.library = c.CDLL(str(library_path), mode=c.RTLD_GLOBAL)
        self.library.tw_error_message.restype = c.c_char_p
        self.library.tw_error_log.restype = c.c_char_p
        self.library.tw_workspace_bytes.restype = c.c_int64
        self.library.tw_prepared_bytes.restype = c.c_int64
        layers, jit = c.c_void_p(), c.c_void_p()
        paths = (c.c_char_p * max(1, len(databases)))(*[str(path).encode() for path in databases])
        if databases:
            self._check(self.library.tw_databases_open(paths, c.c_size_t(len(databases)), c.byref(layers)))
        if jit_path is not None:
            self.jit_library = c.CDLL(str(jit_path))
            self._check(self.jit_library.tw_jit_open(c.byref(jit)))
        options = _RuntimeOptions(c.sizeof(_RuntimeOptions), device.encode(), layers, jit,
                                  None if build_cache is None else str(build_cache).encode())
        self.handle = c.c_void_p()
        self._check(self.library.tw_runtime_open(c.byref(options), c.byref(self.handle)))

    def _check(self, status):
        if status != 0:
            raise Failure(self.library.tw_error_message().decode())

    def bind(self, problem):
        """A Plan for a problem in the project's JSON form (docs/formats.md), as a dict."""
        plan = c.c_void_p()
        self._check(self.library.tw_bind(self.handle, c.byref(native(problem)), c.byref(plan)))
        return Plan(self, plan, problem)


class Plan:
    """What runs for one problem, with the scratch memory of one call."""

    def __init__(self, runtime, handle, problem):
        import torch
        self.runtime, self.handle, self.problem = runtime, handle, problem
        info = _PlanInfo(struct_bytes=c.sizeof(_PlanInfo))
        runtime._check(runtime.library.tw_describe(handle, c.byref(info)))
        self.template, self.configuration = info.template_id.decode(), info.configuration.decode()
        self.provenance = PROVENANCES[info.provenance]
        self.workspace_bytes, self.prepared_bytes = info.workspace_bytes, info.prepared_bytes
        self.workspace = torch.empty(max(1, info.workspace_bytes), dtype=torch.uint8, device="cuda")
        self.prepared = None

    def describe(self):
        return json.dumps({"template": self.template, "configuration": self.configuration, "provenance": self.provenance})

    def _buffers(self):
        return _Buffers(self.workspace.data_ptr(), self.workspace_bytes,
                        None if self.prepared is None else self.prepared.data_ptr())

    def prepare_weights(self, w):
        """The one-time preparation of w, kept for later launches; nothing if the plan has none."""
        import torch
        if self.prepared_bytes == 0:
            return
        self.prepared = torch.empty(self.prepared_bytes, dtype=torch.uint8, device="cuda")
        stream = c.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.runtime._check(self.runtime.library.tw_prepare_weights(
            self.handle, c.c_void_p(w.data_ptr()), c.c_void_p(self.prepared.data_ptr()), c.c_int64(self.prepared_bytes), stream))

    def linear(self, x, w, out, bias=None):
        import torch
        operands = _LinearOperands(x.data_ptr(), x.stride(0), w.data_ptr(), None if bias is None else bias.data_ptr(),
                                   out.data_ptr(), out.stride(0))
        self.runtime._check(self.runtime.library.tw_launch_linear(
            self.handle, c.byref(operands), c.byref(self._buffers()), c.c_void_p(torch.cuda.current_stream().cuda_stream)))

    def attention(self, q, k, v, out, scale, kv_len=None, lse=None):
        import torch
        operands = _AttentionOperands(q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr(),
                                      None if lse is None else lse.data_ptr(), None if kv_len is None else kv_len.data_ptr(),
                                      k.shape[2], scale, *(_Strides(*t.stride()) for t in (q, k, v, out)))
        self.runtime._check(self.runtime.library.tw_launch_attention(
            self.handle, c.byref(operands), c.byref(self._buffers()), c.c_void_p(torch.cuda.current_stream().cuda_stream)))
