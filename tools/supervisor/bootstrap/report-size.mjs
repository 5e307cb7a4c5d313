// Reports the progress of a download that writes into a folder.

import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

const INTERVAL_MS = 1_000;
const MEGABYTE = 1_000_000;

/**
 * Reports the size of a folder while an action runs.
 *
 * @template T
 * @param {string} folder
 * @param {number} megabytes the size at the end, about
 * @param {(progress: string) => void} report
 * @param {() => Promise<T>} action
 * @returns {Promise<T>}
 */
export async function reportSize(folder, megabytes, report, action) {
  const timer = setInterval(async () => {
    const bytes = await measure(folder);
    const percent = Math.min(99, Math.round((bytes / MEGABYTE / megabytes) * 100));
    report(`${Math.round(bytes / MEGABYTE)} of about ${megabytes} MB (${percent} %)`);
  }, INTERVAL_MS);
  try {
    return await action();
  } finally {
    clearInterval(timer);
  }
}

/** Measures the files of a folder. Those that vanish meanwhile count nothing. */
async function measure(folder) {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const sizes = entries.map((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return measure(path);
    return stat(path).then(
      ({ size }) => size,
      () => 0,
    );
  });
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}
