#include "frontend/driver/cuda_images.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/nvrtc.h"
#include "runtime/cpu/object_cache.h"
#include "runtime/hash.h"

enum { MAX_JOBS = 64 };

typedef struct work_s {
  const ptc_nvrtc_t *nvrtc;
  const ptc_kernel_source_t *sources;
  const char *target;
  const ptc_kernel_objects_options_t *options;
  ptc_cuda_image_t *images;
  ptc_cuda_resources_t *resources;
  int32_t *missing;  // numbers of sources, in the order in which they are compiled
  int32_t count;     // of those
  atomic_int next, failed;
  pthread_mutex_t lock;  // of |diag|
  ptc_diag_t *diag;
} work_t;

static void *compile_some(void *arg) {
  work_t *work = arg;
  for (;;) {
    const int32_t at = atomic_fetch_add(&work->next, 1);
    if (at >= work->count || atomic_load(&work->failed)) return NULL;
    const int32_t k = work->missing[at];
    if (work->options->cancel && *work->options->cancel) atomic_store(&work->failed, 1);
    ptc_diag_t diag;
    ptc_diag_init(&diag);
    ptc_str_t code = {0};
    if (ptc_nvrtc_compile(work->nvrtc, &diag, work->sources[k].name, work->sources[k].text,
                          work->target, &code, &work->resources[k]) == PTC_OK) {
      work->images[k] = (ptc_cuda_image_t){code.data, code.len};
    } else {
      atomic_store(&work->failed, 1);
      ptc_str_deinit(&code);
      pthread_mutex_lock(&work->lock);
      for (int64_t i = 0; i < diag.num_items; i++)
        ptc_error(work->diag, diag.items[i].loc, PTC_INTERNAL, "nvrtc-failed", "%s",
                  diag.items[i].message);
      pthread_mutex_unlock(&work->lock);
    }
    ptc_diag_deinit(&diag);
  }
}

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

// Adds what was compiled to the cache.
static void keep(ptc_object_cache_t *cache, char (*keys)[PTC_HASH_CHARS + 1],
                 const int32_t *missing, const ptc_cuda_images_t *images) {
  ptc_diag_t unheard;
  ptc_diag_init(&unheard);
  const bool writable = ptc_object_cache_prepare(&unheard, cache) == PTC_OK;
  ptc_diag_deinit(&unheard);
  for (int32_t i = 0; writable && i < images->num_compiled; i++) {
    const int32_t k = missing[i];
    write_cached(cache, keys[k], &images->images[k], &images->resources[k]);
  }
}

static int32_t num_jobs(const ptc_kernel_objects_options_t *options) {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  const int32_t jobs = options->num_jobs > 0 ? options->num_jobs : (int32_t)(cores > 0 ? cores : 1);
  return jobs < MAX_JOBS ? jobs : MAX_JOBS;
}

static ptc_status_t compile_all(work_t *work) {
  pthread_t threads[MAX_JOBS];
  int32_t started = 0;
  for (; started < num_jobs(work->options) - 1; started++)
    if (pthread_create(&threads[started], NULL, compile_some, work) != 0) break;
  compile_some(work);
  for (int32_t t = 0; t < started; t++) pthread_join(threads[t], NULL);
  if (!atomic_load(&work->failed)) return PTC_OK;
  if (work->diag->num_errors) return PTC_INTERNAL;
  return ptc_error(work->diag, (ptc_loc_t){0}, PTC_IO, "compile-cancelled",
                   "compiling the kernels was interrupted");
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
    work_t work = {.nvrtc = nvrtc,
                   .sources = sources,
                   .target = options->target,
                   .options = options,
                   .images = images.images,
                   .resources = images.resources,
                   .missing = missing,
                   .count = images.num_compiled,
                   .lock = PTHREAD_MUTEX_INITIALIZER,
                   .diag = diag};
    status = compile_all(&work);
    if (status == PTC_OK) keep(&cache, keys, missing, &images);
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
