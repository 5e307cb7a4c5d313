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

/** A library, a package or service of this repository, or a kind of native code, with the self time of its functions. */
export interface HotPart {
  name: string;
  selfMs: number;
}

/** The functions of a profile, and how its time was spent. */
export interface Hottest {
  durationMs: number;
  /** Not waiting for events. */
  busyMs: number;
  /** The hottest first; their self times add up to `busyMs`. */
  functions: HotFunction[];
  /** The same by part. */
  parts: HotPart[];
}

const IDLE = '(idle)';
/** Native functions that write to a socket: mostly the system call. */
const SOCKET_WRITES = /^write(Buffer|v|(Utf8|Latin1|Ascii)String)$/;
/** The native function that writes to a file: the log. */
const LOG_WRITE = 'writeString';

/** Adds up the self time of each function. @param root the checkout, left out of paths */
export function hottest({ nodes, samples, timeDeltas }: CpuProfile, root: string): Hottest {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const functions = new Map<string, HotFunction>();
  const parts = new Map<string, HotPart>();
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
    const part = partOf(name, where);
    parts.set(part, { name: part, selfMs: (parts.get(part)?.selfMs ?? 0) + ms });
  }
  const bySelfTime = (a: HotPart, b: HotPart) => b.selfMs - a.selfMs;
  return {
    durationMs,
    busyMs: durationMs - idleMs,
    functions: [...functions.values()].sort(bySelfTime),
    parts: [...parts.values()].sort(bySelfTime),
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

/** Names the part that a function belongs to. */
function partOf(name: string, where: string): string {
  if (where === '') {
    if (name.startsWith('(')) return name === '(anonymous)' ? 'native' : name.slice(1, -1);
    if (name === LOG_WRITE) return 'log writes';
    return SOCKET_WRITES.test(name) ? 'socket writes' : 'native';
  }
  if (where.startsWith('node:')) return 'node';
  // Of this repository and of scopes, two names.
  const depth = /^(@|(bench|packages|services|tools)\/)/.test(where) ? 2 : 1;
  return where.split('/').slice(0, depth).join('/');
}
