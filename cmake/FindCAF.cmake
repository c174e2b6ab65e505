# Finds the C++ Actor Framework; Debian's package ships no CMake files of its own.
#
#   find_package(CAF COMPONENTS core io openssl)
#
# Makes the imported targets CAF::core, CAF::io and CAF::openssl, and sets CAF_FOUND, CAF_VERSION.

find_path(CAF_INCLUDE_DIR caf/all.hpp)
set(CAF_VERSION "")
if(CAF_INCLUDE_DIR AND EXISTS ${CAF_INCLUDE_DIR}/caf/config.hpp)
  # CAF_VERSION is major * 10000 + minor * 100 + patch.
  file(STRINGS ${CAF_INCLUDE_DIR}/caf/config.hpp caf_line REGEX "#define CAF_VERSION [0-9]+")
  if(caf_line MATCHES "CAF_VERSION ([0-9]+)")
    math(EXPR caf_major "${CMAKE_MATCH_1} / 10000")
    math(EXPR caf_minor "${CMAKE_MATCH_1} / 100 % 100")
    math(EXPR caf_patch "${CMAKE_MATCH_1} % 100")
    set(CAF_VERSION ${caf_major}.${caf_minor}.${caf_patch})
  endif()
endif()

if(NOT CAF_FIND_COMPONENTS)
  set(CAF_FIND_COMPONENTS core)
endif()
foreach(component IN LISTS CAF_FIND_COMPONENTS)
  find_library(CAF_${component}_LIBRARY caf_${component})
  mark_as_advanced(CAF_${component}_LIBRARY)
  if(CAF_${component}_LIBRARY AND CAF_INCLUDE_DIR)
    set(CAF_${component}_FOUND TRUE)
  endif()
endforeach()
mark_as_advanced(CAF_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF
  REQUIRED_VARS CAF_INCLUDE_DIR VERSION_VAR CAF_VERSION HANDLE_COMPONENTS)

if(CAF_FOUND)
  foreach(component IN LISTS CAF_FIND_COMPONENTS)
    if(NOT TARGET CAF::${component})
      add_library(CAF::${component} SHARED IMPORTED)
      set_target_properties(CAF::${component} PROPERTIES
        IMPORTED_LOCATION ${CAF_${component}_LIBRARY}
        INTERFACE_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR})
    endif()
  endforeach()
  # Every other component builds on the core, and openssl on io.
  if(TARGET CAF::core)
    find_package(Threads REQUIRED QUIET)
    target_link_libraries(CAF::core INTERFACE Threads::Threads)
  endif()
  if(TARGET CAF::io)
    target_link_libraries(CAF::io INTERFACE CAF::core)
  endif()
  if(TARGET CAF::openssl)
    find_package(OpenSSL REQUIRED QUIET)
    target_link_libraries(CAF::openssl INTERFACE CAF::io OpenSSL::SSL)
  endif()
endif()
