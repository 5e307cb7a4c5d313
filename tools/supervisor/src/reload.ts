import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { z } from 'zod';
import { UserError } from '../bootstrap/terminal.mjs';
import type { BootstrapConfig } from './bootstrap-config.ts';
import { watchFolders } from './watch-folders.ts';

const manifestShape = z.object({
  name: z.string(),
  dependencies: z.record(z.string(), z.string()).default({}),
});

/** Processes that run the code of another service than the one that they are named after. */
const ALSO_RUN: Record<string, readonly string[]> = { cli: ['simulated device'] };

/** Operations of the reload on the stack. */
interface ReloadedStack {
  /** Restarts the processes of a service; gives whether all became ready, undefined without a process. */
  restart(service: string): Promise<boolean> | undefined;
  print(line: string): void;
}

/**
 * Restarts a service when a file below its `src` changes, or below the `src` of a package that it
 * depends on, directly or through another package. All other processes keep running. Does nothing in a
 * stack that isn't to be reloaded.
 *
 * @returns what ends it
 * @throws {UserError} when the system allows no further watch
 */
export function startReload(
  { reload, root }: Pick<BootstrapConfig, 'reload' | 'root'>,
  stack: ReloadedStack,
): () => void {
  if (!reload) return () => undefined;
  const affected = readAffected(root);
  const folders = [...affected.keys()].map((folder) => join(root, folder, 'src'));
  try {
    return watchFolders(folders, (paths) => {
      const changed = paths.map((path) => relative(root, path));
      const services = changed.flatMap((path) => [...(affected.get(folderOf(path)) ?? [])]);
      restartAll([...new Set(services)], changed, stack);
    });
  } catch (error) {
    const { message } = error as Error;
    throw new UserError(
      `The source files can't be watched (${message}). Raise the system's limits of watched files, or use npm start.`,
    );
  }
}

/**
 * Finds the services that run the code of a package or service: `packages/store` → `api`, `scheduler`, …
 *
 * @param root the checkout
 */
function readAffected(root: string): Map<string, Set<string>> {
  const paths = globSync('{packages,services}/*/package.json', { cwd: root });
  const manifests = paths.map((path) => ({
    folder: dirname(path),
    ...manifestShape.parse(JSON.parse(readFileSync(join(root, path), 'utf8'))),
  }));
  const byName = new Map(manifests.map((one) => [one.name, one]));
  const affected = new Map(manifests.map(({ folder }) => [folder, new Set<string>()]));
  const visit = (name: string, service: string) => {
    const manifest = byName.get(name);
    const services = affected.get(manifest?.folder ?? '');
    if (manifest === undefined || services === undefined || services.has(service)) return;
    services.add(service);
    for (const dependency of Object.keys(manifest.dependencies)) visit(dependency, service);
  };
  for (const { folder, name } of manifests) {
    const service = folder.split(sep)[1] ?? '';
    if (!folder.startsWith('services')) continue;
    for (const run of [service, ...(ALSO_RUN[service] ?? [])]) visit(name, run);
  }
  return affected;
}

function folderOf(path: string): string {
  return path.split(sep).slice(0, 2).join(sep);
}

function restartAll(
  services: readonly string[],
  changed: readonly string[],
  { restart, print }: ReloadedStack,
): void {
  const begun = performance.now();
  const restarts = services.flatMap((service) => {
    const ready = restart(service);
    return ready === undefined ? [] : [{ service, ready }];
  });
  if (restarts.length === 0) return;
  const names = restarts.map(({ service }) => service).join(', ');
  const more = changed.length > 1 ? ` and ${changed.length - 1} more` : '';
  print(`${changed[0]}${more} changed: restarting ${names}`);
  for (const { service, ready } of restarts) {
    void ready.then((isReady) => {
      const seconds = ((performance.now() - begun) / 1000).toFixed(1);
      if (isReady) print(`${service} is ready again (${seconds} s)`);
    });
  }
}
