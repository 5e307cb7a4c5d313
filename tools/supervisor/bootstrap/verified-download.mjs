// Downloads files and verifies their digests.

import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';

const DOWNLOAD_TIMEOUT_MS = 1_800_000;
const PROGRESS_INTERVAL_MS = 1_000;
const MAX_BYTES = 1_073_741_824;
const MAX_DIGEST_CHARACTERS = 1_000;
const DIGEST = /^\s*([0-9a-f]{64})\b/i;

/** Error of a download without the expected digest. */
export class UntrustedDownloadError extends Error {}

/**
 * Downloads a file.
 *
 * @param {string} url
 * @param {string} sha256 the expected digest, hex
 * @param {string} path the target; a file with another digest stays there and must not be used
 * @param {(bytes: number, total: number | undefined) => void} [onProgress] is called at most once a second
 * @throws {UntrustedDownloadError} when the digest differs; Error when the download fails
 */
export async function downloadVerified(url, sha256, path, onProgress = () => undefined) {
  const response = await fetchOk(url);
  const hash = createHash('sha256');
  const total = Number(response.headers.get('content-length')) || undefined;
  let bytes = 0;
  let reportedAt = Date.now();
  const measure = new Transform({
    transform(chunk, _encoding, callback) {
      bytes += chunk.length;
      hash.update(chunk);
      if (Date.now() - reportedAt >= PROGRESS_INTERVAL_MS) {
        reportedAt = Date.now();
        onProgress(bytes, total);
      }
      callback(
        bytes > MAX_BYTES ? new UntrustedDownloadError(`${url} is too large.`) : null,
        chunk,
      );
    },
  });
  await pipeline(response.body, measure, createWriteStream(path));
  const digest = hash.digest('hex');
  if (digest !== sha256.toLowerCase()) {
    throw new UntrustedDownloadError(
      `The file from ${url} has the SHA-256 ${digest}; expected ${sha256}.`,
    );
  }
}

/**
 * Fetches the digest that a vendor publishes next to a file, as `<url>.sha256`. Accepts HTTPS only:
 * the digest comes from the same host as the file, so the host's certificate is its only proof.
 *
 * @param {string} url
 * @returns {Promise<string>} hex
 * @throws {UntrustedDownloadError} when there is no digest
 */
export async function fetchPublishedDigest(url) {
  const response = await fetchOk(`${url}.sha256`).catch((error) => {
    throw new UntrustedDownloadError(`There is no digest at ${url}.sha256 (${error.message}).`);
  });
  if (!response.url.startsWith('https:')) {
    throw new UntrustedDownloadError(`The digest at ${response.url} does not come over HTTPS.`);
  }
  const digest = DIGEST.exec((await response.text()).slice(0, MAX_DIGEST_CHARACTERS))?.[1];
  if (digest === undefined)
    throw new UntrustedDownloadError(`There is no digest at ${url}.sha256.`);
  return digest;
}

async function fetchOk(url) {
  const response = await fetch(url, { signal: AbortSignal.timeout(DOWNLOAD_TIMEOUT_MS) });
  if (response.ok && response.body !== null) return response;
  throw new Error(`${url} responded with status ${response.status}`);
}
