import { type FSWatcher, readdirSync, watch } from 'node:fs';
import { join, sep } from 'node:path';

/**
 * Time without events after which a change is reported: one save in an editor is several events, and a checkout of a
 * branch hundreds.
 */
const QUIET_MS = 100;
/** Files that editors write beside the one that they save. */
const TEMPORARY = /(^\.|~$|\.(swp|swx|tmp)$|^4913$)/;

/**
 * Watches folders with all that is below them.
 *
 * Each folder has a watch of its own: on Linux a recursive `fs.watch` watches single files, and reports
 * nothing more of a file once an editor has replaced it by a rename.
 *
 * @param onChange gets the paths that changed, once 100 ms have passed without a further change
 * @returns what ends it
 * @throws when the system allows no further watch
 */
export function watchFolders(
  roots: readonly string[],
  onChange: (paths: readonly string[]) => void,
): () => void {
  const watchers = new Map<string, FSWatcher>();
  const changed = new Set<string>();
  let timer: NodeJS.Timeout | undefined;

  const note = (path: string) => {
    changed.add(path);
    // A folder that was removed or moved, and perhaps made again: its watch is that of the old one.
    for (const folder of watchers.keys()) {
      if (folder === path || folder.startsWith(path + sep)) unwatch(folder);
    }
    clearTimeout(timer);
    timer = setTimeout(flush, QUIET_MS);
  };

  function flush(): void {
    // A file can be written into a new folder before that folder is watched.
    for (const folder of watchNewFolders()) changed.add(folder);
    const paths = [...changed];
    changed.clear();
    onChange(paths);
  }

  function watchNewFolders(): string[] {
    const added = roots.flatMap(foldersIn).filter((folder) => !watchers.has(folder));
    for (const folder of added) watchers.set(folder, watchFolder(folder, note));
    return added;
  }

  function unwatch(folder: string): void {
    watchers.get(folder)?.close();
    watchers.delete(folder);
  }

  watchNewFolders();
  return () => {
    clearTimeout(timer);
    for (const folder of watchers.keys()) unwatch(folder);
  };
}

function watchFolder(folder: string, note: (path: string) => void): FSWatcher {
  const watcher = watch(folder, (_event, name) => {
    if (name !== null && !TEMPORARY.test(name)) note(join(folder, name));
  });
  // The folder is gone; the event of its parent has reported that.
  watcher.on('error', () => undefined);
  return watcher;
}

function foldersIn(root: string): string[] {
  try {
    const inside = readdirSync(root, { withFileTypes: true, recursive: true });
    const folders = inside.filter((entry) => entry.isDirectory());
    return [root, ...folders.map((entry) => join(entry.parentPath, entry.name))];
  } catch {
    // It was removed between two reads: its parent reports it again.
    return [];
  }
}
