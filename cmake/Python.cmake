# The Python package, for the Python that PLEACH_PYTHON names. In the build folder, python/ is what
# PYTHONPATH names: the extension, libpleach.so and the C headers beside links to python/pleach/.
# `pip install .` installs the component `python` (pyproject.toml).
set(Python_EXECUTABLE ${PLEACH_PYTHON})
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module
  OPTIONAL_COMPONENTS Development.SABIModule)
execute_process(COMMAND ${PLEACH_PYTHON} -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_DIR OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE no_nanobind)
if(no_nanobind)
  message(FATAL_ERROR "${PLEACH_PYTHON} has no nanobind (python/requirements.txt)")
endif()
find_package(nanobind CONFIG REQUIRED)

set(package ${PROJECT_BINARY_DIR}/python/pleach)
set(core_symbols ${PROJECT_SOURCE_DIR}/pleach/python/symbols.map)
nanobind_add_module(pleach_core NB_STATIC STABLE_ABI NOMINSIZE NB_SUPPRESS_WARNINGS
  pleach/python/main.cc)
foreach(nanobind_library nanobind-static nanobind-static-abi3)
  if(TARGET ${nanobind_library})
    target_link_libraries(pleach_python PUBLIC ${nanobind_library})
  endif()
endforeach()
# Endpoints and communicators are those of libpleach.so, so that a process has one runtime, which
# knows all memory of pleach_alloc().
target_link_libraries(pleach_core PRIVATE pleach_python pleach_flags pleach_shared)
target_link_options(pleach_core PRIVATE LINKER:--version-script=${core_symbols})
set_target_properties(pleach_python PROPERTIES CXX_VISIBILITY_PRESET hidden)
set_target_properties(pleach_core PROPERTIES OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY ${package}
  BUILD_RPATH "$ORIGIN/lib" INSTALL_RPATH "$ORIGIN/lib" LINK_DEPENDS ${core_symbols})

nanobind_add_stub(pleach_core_stub MODULE _core OUTPUT ${package}/_core.pyi PYTHON_PATH ${package}
  DEPENDS pleach_core)

file(GLOB modules CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/pleach/*)
list(FILTER modules EXCLUDE REGEX "__pycache__")
file(GLOB stale ${package}/*)
foreach(path ${stale})
  if(IS_SYMLINK ${path})
    file(REMOVE ${path})
  endif()
endforeach()
file(MAKE_DIRECTORY ${package}/lib ${package}/include/pleach/api)
foreach(module ${modules})
  get_filename_component(name ${module} NAME)
  file(CREATE_LINK ${module} ${package}/${name} SYMBOLIC)
endforeach()
foreach(header pleach pleach_types)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/pleach/api/${header}.h
    ${package}/include/pleach/api/${header}.h SYMBOLIC)
endforeach()
foreach(name libpleach.so libpleach.so.${abi_version})
  file(CREATE_LINK ${PROJECT_BINARY_DIR}/libpleach.so.${PROJECT_VERSION} ${package}/lib/${name}
    SYMBOLIC)
endforeach()
set(entry ${PROJECT_SOURCE_DIR}/python/_pleach_torch_entry.py)
file(CREATE_LINK ${entry} ${PROJECT_BINARY_DIR}/python/_pleach_torch_entry.py SYMBOLIC)
# What an installer would write: `import torch` finds the backend by it.
set(metadata ${PROJECT_BINARY_DIR}/python/pleach-${PROJECT_VERSION}.dist-info)
file(WRITE ${metadata}/METADATA
  "Metadata-Version: 2.1\nName: pleach\nVersion: ${PROJECT_VERSION}\n")
file(WRITE ${metadata}/entry_points.txt
  "[torch.backends]\npleach = _pleach_torch_entry:register\n")

if(SKBUILD)
  install(TARGETS pleach_core LIBRARY DESTINATION pleach COMPONENT python)
  install(FILES ${entry} DESTINATION . COMPONENT python)
  install(FILES ${package}/_core.pyi DESTINATION pleach COMPONENT python)
  install(FILES pleach/api/pleach.h pleach/api/pleach_types.h
    DESTINATION pleach/include/pleach/api COMPONENT python)
  # A wheel has no links: the name that is loaded, and the one that is linked with.
  foreach(name libpleach.so.${abi_version} libpleach.so)
    install(FILES $<TARGET_FILE:pleach_shared> DESTINATION pleach/lib RENAME ${name}
      COMPONENT python)
  endforeach()
  install(PROGRAMS $<TARGET_FILE:pleach> DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
endif()
