# One library and one test program per folder, from the names of the files in it:
#
#   x.cc, x_cpu.cc        library suture_<folder>
#   x_cuda.cu             the same, when nvcc is there
#   x_test.cc             <folder>_test, label `unit`
#   x_real_test.cc        <folder>_real_test, label `models`: needs pulled models
#   test_x.cc             helpers, linked into the folder's test programs
#   test_main.cc          the tests' own main (instead of GoogleTest's)
#   main.cc, x_main.cc    left to the folder's CMakeLists.txt
#
# A new file needs no edit here or there.

include(GoogleTest)

# suture_sources(<folder>): sets library_sources, test_sources, real_test_sources, helper_sources.
macro(suture_sources folder)
  file(GLOB_RECURSE library_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
  set(test_sources ${library_sources})
  list(FILTER test_sources INCLUDE REGEX "_test\\.cc$")
  set(real_test_sources ${test_sources})
  list(FILTER real_test_sources INCLUDE REGEX "_real_test\\.cc$")
  list(FILTER test_sources EXCLUDE REGEX "_real_test\\.cc$")
  set(helper_sources ${library_sources})
  list(FILTER helper_sources INCLUDE REGEX "/test_[^/]*\\.cc$")
  list(FILTER helper_sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER library_sources EXCLUDE REGEX "(_test|/main|_main|/test_[^/]*)\\.cc$")
endmacro()

# suture_add_library(<folder> DEPS <targets>...)
function(suture_add_library folder)
  cmake_parse_arguments(arg "" "" "DEPS" ${ARGN})
  suture_sources(${folder})
  if(SUTURE_CUDA_ENABLED)
    file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*_cuda.cu)
  endif()
  set(target suture_${folder})
  set(scope PUBLIC)
  if(library_sources OR cuda_sources)
    add_library(${target} STATIC ${library_sources} ${cuda_sources})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${PROJECT_SOURCE_DIR})
  target_link_libraries(${target} ${scope} ${arg_DEPS})
  if(cuda_sources)
    target_compile_definitions(${target} PUBLIC SUTURE_HAS_CUDA=1)
    target_link_libraries(${target} PUBLIC CUDA::cudart CUDA::cublasLt)
  endif()
endfunction()

# suture_add_test_program(<name> <label> SOURCES <files>... DEPS <targets>... [DEFINITIONS ...])
function(suture_add_test_program name label)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;DEFINITIONS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE
    SUTURE_TEST_DATA_DIR="${PROJECT_SOURCE_DIR}/tests/data" ${arg_DEFINITIONS})
  target_compile_options(${name} PRIVATE ${SUTURE_TEST_FLAGS})
  set(gtest GTest::gtest_main)
  if(arg_SOURCES MATCHES "/test_main\\.cc")
    set(gtest GTest::gtest)
  endif()
  target_link_libraries(${name} PRIVATE ${arg_DEPS} ${gtest})
  set(processors 1)
  if(NOT label STREQUAL unit)
    set(processors 2)
  endif()
  # Listing the tests when ctest runs, not after each link, keeps builds quick.
  gtest_discover_tests(${name}
    TEST_PREFIX "${name}." DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS ${label} TIMEOUT 600 PROCESSORS ${processors})
  if(label STREQUAL unit)
    add_dependencies(unit_tests ${name})
  endif()
endfunction()

# suture_add_tests(<folder> [DEPS <targets>...]): the folder's unit and real-model tests.
function(suture_add_tests folder)
  cmake_parse_arguments(arg "" "" "DEPS" ${ARGN})
  suture_sources(${folder})
  if(test_sources)
    suture_add_test_program(${folder}_test unit
      SOURCES ${test_sources} ${helper_sources} DEPS suture_${folder} ${arg_DEPS})
  endif()
  if(real_test_sources)
    suture_add_test_program(${folder}_real_test models
      SOURCES ${real_test_sources} ${helper_sources} DEPS suture_${folder} ${arg_DEPS})
  endif()
endfunction()

# suture_add_test_helpers(<folder>): suture_<folder>_test_helpers, the folder's test_x.cc for the
# tests of folders above it.
function(suture_add_test_helpers folder)
  suture_sources(${folder})
  list(FILTER helper_sources EXCLUDE REGEX "/test_main\\.cc$")
  set(target suture_${folder}_test_helpers)
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${helper_sources})
  target_compile_definitions(${target} PRIVATE
    SUTURE_TEST_DATA_DIR="${PROJECT_SOURCE_DIR}/tests/data")
  target_compile_options(${target} PRIVATE ${SUTURE_TEST_FLAGS})
  target_link_libraries(${target} PUBLIC suture_${folder} GTest::gtest)
endfunction()

# What `make sanitize` builds.
add_custom_target(unit_tests)
