# libpleach.so: the C interface of pleach/api/pleach.h, and no other symbol. Its installed package is
# pleach::shared in CMake, and `pleach` for pkg-config.
file(STRINGS pleach/api/pleach.h abi_version REGEX "^#define PLEACH_ABI_VERSION ")
string(REGEX MATCH "[0-9]+" abi_version "${abi_version}")
set(symbols ${PROJECT_SOURCE_DIR}/pleach/c_abi/symbols.map)

add_library(pleach_shared SHARED $<TARGET_OBJECTS:pleach_c_abi>)
target_link_libraries(pleach_shared PRIVATE pleach_api pleach_flags)
target_link_options(pleach_shared PRIVATE LINKER:--version-script=${symbols} LINKER:--as-needed)
target_include_directories(pleach_shared INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
set_target_properties(pleach_shared PROPERTIES OUTPUT_NAME pleach EXPORT_NAME shared
  LINKER_LANGUAGE CXX LINK_DEPENDS ${symbols} VERSION ${PROJECT_VERSION} SOVERSION ${abi_version})
add_library(pleach::shared ALIAS pleach_shared)

install(TARGETS pleach_shared EXPORT pleachTargets DESTINATION ${CMAKE_INSTALL_LIBDIR})
pleach_install_headers(pleach/api/pleach.h)
set(pkgconfig ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH prefix_from_pkgconfig /${pkgconfig} /)
configure_file(cmake/pleach.pc.in ${PROJECT_BINARY_DIR}/pleach.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/pleach.pc DESTINATION ${pkgconfig})
