# Compiler settings for all of our own C++ code.

# No -march: kernels choose their instructions at run time, so one binary serves every x86-64 host.
# -ffp-contract=off: results must be the same bits whatever the optimiser would like to fuse;
# kernels that want a fused multiply-add say so with intrinsics.
add_compile_options(
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Werror;-ffp-contract=off>")

find_program(SUTURE_CCACHE ccache)
if(SUTURE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SUTURE_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${SUTURE_CCACHE})
endif()
