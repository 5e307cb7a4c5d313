import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';
import type { Manifest } from './manifest.ts';

const execFileAsync = promisify(execFile);
export const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const KUSTOMIZE_MODULE = 'sigs.k8s.io/kustomize/kustomize/v5@v5.8.1';

/** Programs that render, in the order in which they are tried. The last one compiles kustomize, a minute the first time. */
const RENDERERS: readonly (readonly string[])[] = [
  ['kubectl', 'kustomize'],
  ['kustomize', 'build'],
  ['go', 'run', KUSTOMIZE_MODULE, 'build'],
];

/** Folders that are rendered: all overlays, and the components that none of them uses. */
export const RENDERED = [
  ...readdirSync(`${ROOT}k8s/overlays`).map((name) => `k8s/overlays/${name}`),
  'test/deploy/all-components',
];

/**
 * Renders a folder by kustomize, as `kubectl apply -k` would.
 *
 * @param folder from the repository's root, or absolute
 * @throws with the output of kustomize
 */
export async function render(folder: string): Promise<Manifest[]> {
  for (const [program = '', ...args] of RENDERERS) {
    try {
      const { stdout } = await execFileAsync(program, [...args, resolve(ROOT, folder)], {
        maxBuffer: 16 * 1_024 * 1_024,
      });
      // Kubernetes reads YAML 1.1, in which an `off` without quotes is false.
      return parseAllDocuments(stdout, { version: '1.1' }).map(
        (document) => document.toJS() as Manifest,
      );
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  throw new Error('Install kubectl (1.27 or newer) or kustomize (5 or newer) to check k8s/');
}
