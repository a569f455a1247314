# Finds cuda.h and nvrtc.h for runtime/driver and compiler/nvrtc; libcuda and libnvrtc themselves are opened at run time.
#
# A toolkit comes first (CUDA_PATH, CUDA_HOME, nvcc on PATH, /usr/local/cuda), then pip's nvidia-cuda-* wheels of the python3
# on PATH. Without headers everything still builds, and the CUDA device answers that it was left out.
set(hints $ENV{CUDA_PATH} $ENV{CUDA_HOME})
find_program(TILEWRIGHT_NVCC nvcc)
mark_as_advanced(TILEWRIGHT_NVCC)
if(TILEWRIGHT_NVCC)
  file(REAL_PATH ${TILEWRIGHT_NVCC} nvcc)
  cmake_path(GET nvcc PARENT_PATH bin)
  cmake_path(GET bin PARENT_PATH toolkit)
  list(APPEND hints ${toolkit})
endif()
list(APPEND hints /usr/local/cuda)
find_program(TILEWRIGHT_PYTHON python3)
mark_as_advanced(TILEWRIGHT_PYTHON)
if(TILEWRIGHT_PYTHON)
  execute_process(
    COMMAND ${TILEWRIGHT_PYTHON} -c "import glob, site, sys; print(';'.join(d for p in site.getsitepackages() + [site.getusersitepackages()] for d in glob.glob(p + '/nvidia/*')))"
    OUTPUT_VARIABLE wheels OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  list(APPEND hints ${wheels})
endif()
find_path(TILEWRIGHT_CUDA_INCLUDE cuda.h HINTS ${hints} PATH_SUFFIXES include targets/x86_64-linux/include)
find_path(TILEWRIGHT_NVRTC_INCLUDE nvrtc.h HINTS ${hints} PATH_SUFFIXES include targets/x86_64-linux/include)

add_library(tilewright_cuda_headers INTERFACE)
if(TILEWRIGHT_CUDA_INCLUDE AND TILEWRIGHT_NVRTC_INCLUDE)
  message(STATUS "CUDA headers: ${TILEWRIGHT_CUDA_INCLUDE}")
  target_include_directories(tilewright_cuda_headers SYSTEM INTERFACE ${TILEWRIGHT_CUDA_INCLUDE} ${TILEWRIGHT_NVRTC_INCLUDE})
  set(TILEWRIGHT_HAVE_CUDA ON)
else()
  message(STATUS "CUDA headers: not found; building without the CUDA device and NVRTC")
  set(TILEWRIGHT_HAVE_CUDA OFF)
endif()
target_compile_definitions(tilewright_cuda_headers INTERFACE TILEWRIGHT_HAVE_CUDA=$<BOOL:${TILEWRIGHT_HAVE_CUDA}>)
