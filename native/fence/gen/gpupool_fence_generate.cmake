# gpupool_fence_generate(TARGET driver|nvml): adds to a library what is generated of the classified table, and what asks
# about it. A handler `own` that is not written yet is a function that the link misses. While new symbols are classified,
# GPUPOOL_FENCE_UNWRITTEN lets such handlers pass through and lists them in TARGET-unwritten.txt beside the library.
option(GPUPOOL_FENCE_UNWRITTEN "Let handlers that are not written yet pass through, and list them" OFF)
set(GPUPOOL_FENCE_GEN_DIR "${CMAKE_CURRENT_LIST_DIR}")

function(gpupool_fence_generate target side)
  set(prefix_driver fence)
  set(prefix_nvml fence_nvml)
  set(prefix "${prefix_${side}}")
  set(into "${CMAKE_CURRENT_BINARY_DIR}/generated")
  set(table "${GPUPOOL_FENCE_GEN_DIR}/../spec/${side}.tsv")
  set(made)
  foreach(file real.h handlers.h wrappers.c defaults.c table.c)
    list(APPEND made "${into}/${prefix}_${file}")
  endforeach()
  # The generator leaves files alone that do not change; the stamp is what make and ninja look at.
  add_custom_command(
    OUTPUT "${into}/${side}.stamp" BYPRODUCTS ${made}
    COMMAND "${GPUPOOL_PYTHON}" -B "${GPUPOOL_FENCE_GEN_DIR}/generate.py" ${side} --symbols "${GPUPOOL_CUDA_SYMBOLS}"
            --table "${table}" --into "${into}"
    COMMAND "${CMAKE_COMMAND}" -E touch "${into}/${side}.stamp"
    DEPENDS "${table}" "${GPUPOOL_CUDA_SYMBOLS}" "${GPUPOOL_FENCE_GEN_DIR}/generate.py"
            "${GPUPOOL_FENCE_GEN_DIR}/classified.py" "${GPUPOOL_FENCE_GEN_DIR}/wrappers.py"
            "${GPUPOOL_FENCE_GEN_DIR}/unwritten.py"
    COMMENT "The classified table of ${side} becomes C" VERBATIM)
  add_custom_target(${target}_generated DEPENDS "${into}/${side}.stamp")
  add_dependencies(${target} ${target}_generated)

  foreach(file ${made})
    set_source_files_properties("${file}" PROPERTIES GENERATED TRUE)
  endforeach()
  target_sources(${target} PRIVATE "${into}/${prefix}_wrappers.c" "${into}/${prefix}_table.c"
    "${GPUPOOL_FENCE_GEN_DIR}/table.c" "${GPUPOOL_FENCE_GEN_DIR}/exports.c")
  if(side STREQUAL driver)
    target_sources(${target} PRIVATE "${GPUPOOL_FENCE_GEN_DIR}/lookup.c")
  endif()
  target_include_directories(${target} PRIVATE "${into}" "${GPUPOOL_FENCE_GEN_DIR}")
  target_link_libraries(${target} PRIVATE gpupool_cuda_headers)
  # A function of the same name in another library must not take the place of one of these inside the library.
  set_target_properties(${target} PROPERTIES C_VISIBILITY_PRESET hidden)
  target_link_options(${target} PRIVATE -Wl,-Bsymbolic -Wl,-z,defs)
  if(NOT GPUPOOL_FENCE_UNWRITTEN)
    return()
  endif()
  target_sources(${target} PRIVATE "${into}/${prefix}_defaults.c")
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND "${GPUPOOL_PYTHON}" -B "${GPUPOOL_FENCE_GEN_DIR}/unwritten.py" --nm "${CMAKE_NM}" "$<TARGET_FILE:${target}>"
            "$<TARGET_FILE_DIR:${target}>/${target}-unwritten.txt"
    VERBATIM)
endfunction()
