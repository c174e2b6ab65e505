# CUDA is used when there are *_cuda.cu files and an nvcc to compile them; it is never required.

option(SUTURE_CUDA "Compile *_cuda.cu files when nvcc is found" ON)
set(SUTURE_CUDA_ENABLED OFF)
file(GLOB_RECURSE suture_cuda_files CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/kernels/*_cuda.cu ${PROJECT_SOURCE_DIR}/bus/*_cuda.cu)
if(SUTURE_CUDA AND suture_cuda_files)
  find_program(SUTURE_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda/bin)
  if(SUTURE_NVCC)
    set(CMAKE_CUDA_COMPILER ${SUTURE_NVCC})
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES all-major)
    endif()
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    # CMake 3.25 does not know that nvcc has had this flag since CUDA 12.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    set(SUTURE_CUDA_ENABLED ON)
  endif()
endif()
message(STATUS "CUDA: ${SUTURE_CUDA_ENABLED}")
