#include "frontend/driver/cuda_images.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/nvrtc_pool.h"
#include "runtime/cpu/cores.h"
#include "runtime/cpu/object_cache.h"
#include "runtime/hash.h"

static void key_of(const ptc_nvrtc_t *nvrtc, const ptc_kernel_source_t *source, const char *target,
                   char out_key[PTC_HASH_CHARS + 1]) {
  ptc_str_t text = {0};
  ptc_str_printf(&text, "nvrtc %d %s lineinfo resources\n", ptc_nvrtc_version(nvrtc), target);
  ptc_str_append_n(&text, source->text, source->len);
  ptc_hash(text.data, text.len, out_key);
  ptc_str_deinit(&text);
}

// In the cache an image is followed by what it takes, as text of this many bytes.
enum { TRAILER_BYTES = 128 };
static const char trailer_form[] =
    "\nptc-resources %d %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64;

static void read_cached(const ptc_object_cache_t *cache, const char *key, ptc_cuda_image_t *image,
                        ptc_cuda_resources_t *resources) {
  size_t len = 0;
  char *data = ptc_object_cache_read(cache, key, &len);
  int known = 0;
  ptc_cuda_resources_t *r = resources;
  if (data && len > TRAILER_BYTES &&
      sscanf(data + len - TRAILER_BYTES, trailer_form, &known, &r->registers, &r->shared_bytes,
             &r->stack_bytes, &r->spill_store_bytes, &r->spill_load_bytes) == 6) {
    r->known = known;
    *image = (ptc_cuda_image_t){data, len - TRAILER_BYTES};
    // PTX is text, which ends here.
    data[image->len] = '\0';
  } else {
    free(data);
  }
}

// A cache that cannot be written costs time, no more.
static void write_cached(const ptc_object_cache_t *cache, const char *key,
                         const ptc_cuda_image_t *image, const ptc_cuda_resources_t *r) {
  char trailer[TRAILER_BYTES + 1] = "";
  snprintf(trailer, sizeof trailer,
           "\nptc-resources %d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, r->known,
           r->registers, r->shared_bytes, r->stack_bytes, r->spill_store_bytes,
           r->spill_load_bytes);
  ptc_str_t path = {0};
  ptc_str_printf(&path, "%s/%s", cache->work, key);
  FILE *file = fopen(path.data, "we");
  if (file) {
    const bool ok = fwrite(image->data, 1, image->len, file) == image->len &&
                    fwrite(trailer, 1, TRAILER_BYTES, file) == TRAILER_BYTES;
    if (fclose(file) == 0 && ok) ptc_object_cache_add(cache, key, path.data);
  }
  ptc_str_deinit(&path);
}

// Adds what was compiled to the cache, also where others were not.
static void keep(ptc_object_cache_t *cache, char (*keys)[PTC_HASH_CHARS + 1],
                 const int32_t *missing, const ptc_cuda_images_t *images) {
  ptc_diag_t unheard;
  ptc_diag_init(&unheard);
  const bool writable = ptc_object_cache_prepare(&unheard, cache) == PTC_OK;
  ptc_diag_deinit(&unheard);
  for (int32_t i = 0; writable && i < images->num_compiled; i++) {
    const int32_t k = missing[i];
    if (!images->images[k].data) continue;
    write_cached(cache, keys[k], &images->images[k], &images->resources[k]);
  }
}

// Compiles the sources that |missing| numbers, in that order.
static ptc_status_t compile_missing(ptc_diag_t *diag, const ptc_nvrtc_t *nvrtc,
                                    const ptc_kernel_source_t *sources, const int32_t *missing,
                                    const ptc_kernel_objects_options_t *options,
                                    ptc_cuda_images_t *images) {
  const int32_t count = images->num_compiled;
  const int32_t cores = options->num_jobs > 0 ? options->num_jobs : ptc_num_cores();
  ptc_nvrtc_pool_t *pool =
      ptc_nvrtc_pool_create(diag, nvrtc, cores < count ? cores : count, options->cancel);
  if (!pool) return PTC_DEVICE;
  ptc_nvrtc_job_t *jobs = ptc_xmalloc(sizeof *jobs * (size_t)count);
  for (int32_t i = 0; i < count; i++)
    jobs[i] =
        (ptc_nvrtc_job_t){.name = sources[missing[i]].name, .source = sources[missing[i]].text};
  ptc_status_t status = ptc_nvrtc_pool_compile(pool, diag, options->target, jobs, count);
  for (int32_t i = 0; i < count; i++) {
    images->images[missing[i]] = (ptc_cuda_image_t){jobs[i].code, jobs[i].len};
    images->resources[missing[i]] = jobs[i].resources;
  }
  free(jobs);
  ptc_nvrtc_pool_destroy(pool);
  return status;
}

ptc_status_t ptc_cuda_images_create(ptc_diag_t *diag, const ptc_kernel_source_t *sources,
                                    int32_t num_sources,
                                    const ptc_kernel_objects_options_t *options,
                                    ptc_cuda_images_t *out_images) {
  *out_images = (ptc_cuda_images_t){0};
  ptc_nvrtc_t *nvrtc = ptc_nvrtc_open(diag);
  if (!nvrtc) return PTC_DEVICE;
  ptc_object_cache_t cache = {0};
  ptc_status_t status = ptc_object_cache_open(diag, options->cache_folder, &cache);
  const size_t bytes = sizeof *out_images->images * (size_t)(num_sources + 1);
  ptc_cuda_images_t images = {.images = ptc_xmalloc(bytes), .count = num_sources};
  memset(images.images, 0, bytes);
  const size_t resource_bytes = sizeof *images.resources * (size_t)(num_sources + 1);
  images.resources = ptc_xmalloc(resource_bytes);
  memset(images.resources, 0, resource_bytes);
  char(*keys)[PTC_HASH_CHARS + 1] = ptc_xmalloc(sizeof *keys * (size_t)(num_sources + 1));
  int32_t *missing = ptc_xmalloc(sizeof *missing * (size_t)(num_sources + 1));
  for (int32_t k = 0; k < num_sources && status == PTC_OK; k++) {
    key_of(nvrtc, &sources[k], options->target, keys[k]);
    read_cached(&cache, keys[k], &images.images[k], &images.resources[k]);
    if (!images.images[k].data) missing[images.num_compiled++] = k;
  }
  if (status == PTC_OK && images.num_compiled) {
    if (options->progress) fprintf(stderr, "compiling %d CUDA kernels\n", images.num_compiled);
    ptc_kernel_sources_sort(sources, missing, images.num_compiled);
    status = compile_missing(diag, nvrtc, sources, missing, options, &images);
    keep(&cache, keys, missing, &images);
  }
  free(keys);
  free(missing);
  if (cache.folder) ptc_object_cache_close(&cache);
  ptc_nvrtc_close(nvrtc);
  if (status == PTC_OK)
    *out_images = images;
  else
    ptc_cuda_images_deinit(&images);
  return status;
}

void ptc_cuda_images_deinit(ptc_cuda_images_t *images) {
  for (int32_t k = 0; images->images && k < images->count; k++)
    free((void *)(uintptr_t)images->images[k].data);
  free(images->images);
  free(images->resources);
  *images = (ptc_cuda_images_t){0};
}
