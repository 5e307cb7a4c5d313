/**
 * Settings of the C library for processes that export. It keeps memory that V8's threads have freed, for each of its
 * arenas; and it raises these thresholds (bytes) by itself, after which it keeps the freed pages of buffers. Without them
 * an API process held up to 50 MB more after a dozen exports. The images set the same in the Dockerfile.
 */
export const MALLOC_SETTINGS = {
  MALLOC_ARENA_MAX: '1',
  MALLOC_MMAP_THRESHOLD_: '131072',
  MALLOC_TRIM_THRESHOLD_: '131072',
};
