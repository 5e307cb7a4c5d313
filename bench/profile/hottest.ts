import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { CpuProfile, ProfileNode } from './inspector.ts';

/** A function, and the time for which it was on top of the stack itself. */
export interface HotFunction {
  name: string;
  /** `services/api/src/x.ts:12`; empty for the collector and native code. */
  where: string;
  selfMs: number;
}

/** The functions of a profile, and how its time was spent. */
export interface Hottest {
  durationMs: number;
  /** Not waiting for events. */
  busyMs: number;
  /** The hottest first; their self times add up to `busyMs`. */
  functions: HotFunction[];
}

const IDLE = '(idle)';

/** Adds up the self time of each function. @param root the checkout, left out of paths */
export function hottest({ nodes, samples, timeDeltas }: CpuProfile, root: string): Hottest {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const functions = new Map<string, HotFunction>();
  let durationMs = 0;
  let idleMs = 0;
  for (const [at, id] of samples.entries()) {
    // A sample stands for the time up to the next one.
    const ms = Math.max(0, timeDeltas[at + 1] ?? 0) / 1_000;
    const node = byId.get(id);
    durationMs += ms;
    if (node === undefined || node.callFrame.functionName === IDLE) {
      idleMs += ms;
      continue;
    }
    const { name, where } = describe(node, root);
    const found = functions.get(`${name} ${where}`) ?? { name, where, selfMs: 0 };
    found.selfMs += ms;
    functions.set(`${name} ${where}`, found);
  }
  return {
    durationMs,
    busyMs: durationMs - idleMs,
    functions: [...functions.values()].sort((a, b) => b.selfMs - a.selfMs),
  };
}

function describe({ callFrame }: ProfileNode, root: string): Pick<HotFunction, 'name' | 'where'> {
  const { functionName, url, lineNumber } = callFrame;
  const name = functionName === '' ? '(anonymous)' : functionName;
  if (url === '') return { name, where: '' };
  const path = url.startsWith('file:') ? relative(root, fileURLToPath(url)) : url;
  // pnpm's folders repeat the name of each library.
  const short = path.replace(/^.*node_modules\//, '');
  return { name, where: `${short}:${lineNumber + 1}` };
}
