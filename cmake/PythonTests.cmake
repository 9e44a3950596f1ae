# Tests of the Python package: one of ctest's per file in python/tests, and what ruff and mypy say.
# What is compiled against PyTorch is compiled once, as a part of the build, into the tests' cache.
execute_process(COMMAND ${PLEACH_PYTHON} -c
  "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
  RESULT_VARIABLE no_torch)
if(no_torch)
  message(STATUS "pleach.torch left out of the tests: ${PLEACH_PYTHON} has no PyTorch")
else()
  file(GLOB shim CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/pleach/torch/shim/*)
  set(mark ${PROJECT_BINARY_DIR}/torch_shim.mark)
  add_custom_command(OUTPUT ${mark}
    COMMAND ${CMAKE_COMMAND} -E env PYTHONPATH=${PROJECT_BINARY_DIR}/python
      XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/cache
      ${PLEACH_PYTHON} -W ignore -m pleach.torch._build
    COMMAND ${CMAKE_COMMAND} -E touch ${mark}
    DEPENDS ${shim} pleach/api/pleach.h pleach/api/pleach_types.h
      python/pleach/torch/_build.py pleach_core pleach_shared
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
  add_custom_target(pleach_torch_shim ALL DEPENDS ${mark})
endif()

function(pleach_python_test name)
  add_test(NAME python.${name} COMMAND ${PLEACH_PYTHON} -m ${ARGN}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(python.${name} PROPERTIES ENVIRONMENT
    "PYTHONPATH=${PROJECT_BINARY_DIR}/python;PYTHONDONTWRITEBYTECODE=1;PLEACH=$<TARGET_FILE:pleach>;XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/cache")
endfunction()

file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/tests/test_*.py)
foreach(test ${tests})
  get_filename_component(stem ${test} NAME_WE)
  string(REGEX REPLACE "^test_" "" name ${stem})
  pleach_python_test(${name} pytest -q -p no:cacheprovider ${test})
  # A file that takes longer says so: `# timeout_s: 300`, a line of its own.
  file(STRINGS ${test} timeout REGEX "^# timeout_s: [0-9]+$")
  if(timeout)
    string(REGEX MATCH "[0-9]+" seconds ${timeout})
    set_tests_properties(python.${name} PROPERTIES TIMEOUT ${seconds})
  endif()
endforeach()
pleach_python_test(ruff ruff check --no-cache .)
pleach_python_test(mypy mypy --config-file pyproject.toml)
set_tests_properties(python.mypy PROPERTIES TIMEOUT 300
  ENVIRONMENT "MYPYPATH=${PROJECT_BINARY_DIR}/python;MYPY_CACHE_DIR=${PROJECT_BINARY_DIR}/mypy")
