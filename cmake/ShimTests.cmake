# C++ tests of the backend's C++ (python/pleach/torch/shim), against the PyTorch of the Python that
# PLEACH_TORCH_PYTHON names. PyTorch's own libraries are no part of what sanitizers see.
if(NOT PLEACH_TORCH_PYTHON OR NOT EXISTS ${PLEACH_TORCH_PYTHON})
  message(STATUS "Tests of the shim left out: there is no Python in PLEACH_TORCH_PYTHON")
  return()
endif()
execute_process(COMMAND ${PLEACH_TORCH_PYTHON} -W ignore -c
  "import torch; print(*torch.__path__, int(torch._C._GLIBCXX_USE_CXX11_ABI), sep=';')"
  OUTPUT_VARIABLE torch OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE no_torch ERROR_QUIET)
if(no_torch)
  message(STATUS "Tests of the shim left out: ${PLEACH_TORCH_PYTHON} has no PyTorch")
  return()
endif()
list(GET torch 0 torch_folder)
list(GET torch 1 torch_abi)

# All but what Python sees, as one source: PyTorch's headers take most of the time.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/pleach/torch/shim/*.cc)
list(FILTER sources EXCLUDE REGEX "/(shim|module)\\.cc$")
add_library(pleach_torch_shim_tested STATIC ${sources}
  ${PROJECT_SOURCE_DIR}/python/tests/shim/fake_device.cc)
set_target_properties(pleach_torch_shim_tested PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
target_include_directories(pleach_torch_shim_tested
  PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/python/pleach/torch/shim)
target_include_directories(pleach_torch_shim_tested SYSTEM
  PUBLIC ${torch_folder}/include ${torch_folder}/include/torch/csrc/api/include)
target_compile_definitions(pleach_torch_shim_tested PUBLIC _GLIBCXX_USE_CXX11_ABI=${torch_abi})
# PyTorch's headers take half as long to compile so.
target_compile_options(pleach_torch_shim_tested PUBLIC -Wall -Wextra -Werror -O0)
target_link_directories(pleach_torch_shim_tested PUBLIC ${torch_folder}/lib)
target_link_libraries(pleach_torch_shim_tested PUBLIC pleach_shared torch torch_cpu c10)
set(environment ${PLEACH_TEST_ENVIRONMENT} OMP_NUM_THREADS=1)
if(PLEACH_SANITIZE)
  target_compile_options(pleach_torch_shim_tested PUBLIC
    $<TARGET_PROPERTY:pleach_flags,INTERFACE_COMPILE_OPTIONS>)
  target_link_options(pleach_torch_shim_tested PUBLIC
    $<TARGET_PROPERTY:pleach_flags,INTERFACE_LINK_OPTIONS>)
  list(APPEND environment
    TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/python/tests/shim/tsan.supp)
endif()

file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/tests/shim/*_test.cc)
foreach(source ${tests})
  get_filename_component(stem ${source} NAME_WE)
  add_executable(${stem} ${source})
  target_link_libraries(${stem} PRIVATE pleach_torch_shim_tested GTest::gtest_main)
  set_target_properties(${stem} PROPERTIES BUILD_RPATH "${torch_folder}/lib;${PROJECT_BINARY_DIR}")
  add_test(NAME shim.${stem} COMMAND ${stem})
  set_tests_properties(shim.${stem} PROPERTIES ENVIRONMENT "${environment}")
endforeach()
