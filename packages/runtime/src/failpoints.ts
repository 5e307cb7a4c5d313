import { FAILPOINTS, type Failpoint, setFailpointHandler } from '@carillon/core/failpoint';
import { SettingsError } from '@carillon/core/settings-error';

const ACTIONS = ['kill', 'stop', 'throw', 'reject', 'block', 'fill'] as const;

/** A failpoint and the action that it takes. */
export interface ArmedFailpoint {
  name: Failpoint;
  action: (typeof ACTIONS)[number];
  /** Time for which `block` blocks the event loop. */
  blockMs: number;
  /** Only this occurrence in the process, from 1; every occurrence if undefined. */
  occurrence?: number;
  /** Only where the text contains this. */
  text: string;
}

/** Numbers allocated at once: a megabyte of the heap. */
const FILLED_AT_ONCE = 131_072;

const ENTRY = /^([a-z-]+):([a-z]+)(?:=(\d+))?(?:#(\d+))?(?:@(.+))?$/;

/**
 * Parses failpoints, separated by commas: `name:action`, then `=milliseconds` for `block`, `#n` for the nth occurrence
 * only, `@text` for occurrences whose text contains it. Actions: `kill` (SIGKILL), `stop` (SIGSTOP), `throw`, `reject` (an unhandled
 * rejection), `block`, `fill` (the heap, until V8 ends the process).
 *
 * @throws SettingsError
 */
export function parseFailpoints(list: string): ArmedFailpoint[] {
  return list
    .split(',')
    .filter(Boolean)
    .map((entry) => {
      const [, name = '', action = '', ms, occurrence, text = ''] = ENTRY.exec(entry.trim()) ?? [];
      if (!isFailpoint(name) || !isAction(action)) {
        throw new SettingsError(`Wrong environment:\nFAILPOINTS: ${entry} is no failpoint`);
      }
      const blockMs = Number(ms ?? 0);
      return {
        name,
        action,
        blockMs,
        text,
        ...(occurrence !== undefined && { occurrence: Number(occurrence) }),
      };
    });
}

function isFailpoint(name: string): name is Failpoint {
  return Object.hasOwn(FAILPOINTS, name);
}

function isAction(action: string): action is ArmedFailpoint['action'] {
  return (ACTIONS as readonly string[]).includes(action);
}

/**
 * Arms the failpoints of a process.
 *
 * @param list as in {@link parseFailpoints}; undefined arms none
 * @param nodeEnv the value of NODE_ENV
 * @throws SettingsError in production
 */
export function armFailpoints(list: string | undefined, nodeEnv: string | undefined): void {
  if (list === undefined) return;
  if (nodeEnv === 'production') {
    throw new SettingsError(
      'Wrong environment:\nFAILPOINTS is for tests, and NODE_ENV is production',
    );
  }
  const armed = parseFailpoints(list).map((failpoint) => ({ ...failpoint, seen: 0 }));
  setFailpointHandler((name, text) => {
    for (const one of armed) {
      if (one.name !== name || !text.includes(one.text)) continue;
      one.seen += 1;
      if (one.occurrence === undefined || one.occurrence === one.seen) act(one);
    }
  });
}

function act({ name, action, blockMs }: ArmedFailpoint): void {
  if (action === 'throw') throw new Error(`failpoint ${name}`);
  if (action === 'reject') void Promise.reject(new Error(`failpoint ${name}`));
  else if (action === 'kill') process.kill(process.pid, 'SIGKILL');
  else if (action === 'stop') process.kill(process.pid, 'SIGSTOP');
  else if (action === 'fill') fillHeap();
  else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, blockMs);
}

/** Allocates until V8 ends the process, as a payload or a response that is too large would. */
function fillHeap(): never {
  const kept: number[][] = [];
  for (;;) kept.push(new Array<number>(FILLED_AT_ONCE).fill(kept.length));
}
