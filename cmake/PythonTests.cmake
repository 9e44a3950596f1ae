# Tests of the Python package: one of ctest's per file in python/tests, and what ruff and mypy say.
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
endforeach()
pleach_python_test(ruff ruff check --no-cache .)
pleach_python_test(mypy mypy --config-file pyproject.toml)
set_tests_properties(python.mypy PROPERTIES TIMEOUT 300
  ENVIRONMENT "MYPYPATH=${PROJECT_BINARY_DIR}/python;MYPY_CACHE_DIR=${PROJECT_BINARY_DIR}/mypy")
