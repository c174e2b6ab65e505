# Compiler settings for all of our own C++ code.

# No -march: kernels choose their instructions at run time, so one binary serves every x86-64 host.
# -ffp-contract=off: results must be the same bits whatever the optimiser would like to fuse;
# kernels that want a fused multiply-add say so with intrinsics.
# -Wno-missing-field-initializers: a designated initialiser leaves the other members at their
# defaults on purpose, as in {.name = "a", .threads = 2}.
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Werror>"
  "$<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers;-ffp-contract=off>")

# Most of a build's time goes into optimising and instrumenting headers of libraries (CLI11, CAF,
# nlohmann_json, GoogleTest) in code that does no arithmetic. The presets of the sanitizers
# (CMakePresets.json) do without optimisation there, without checks of undefined behaviour in test
# programs and without those in control code that the address sanitizer makes too; and let the
# compiler collect its garbage later.
set(SUTURE_TEST_FLAGS "$<$<CONFIG:Release>:-O1>" CACHE STRING "Compiler flags of test programs")
set(SUTURE_CONTROL_FLAGS "$<$<CONFIG:Release>:-O1>" CACHE STRING "Compiler flags of actors and launcher")

find_program(SUTURE_CCACHE ccache)
if(SUTURE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths below the source folder count as relative, so that another checkout hits the same cache.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${SUTURE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
endif()
