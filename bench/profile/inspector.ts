import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

/** Microseconds between two samples: fine enough for 10 s, and costs the process a few per cent. */
const INTERVAL_US = 500;

/** A node of the call tree. */
export interface ProfileNode {
  id: number;
  /** `lineNumber` counts from 0; `url` is empty for native code. */
  callFrame: { functionName: string; url: string; lineNumber: number };
}

/** A recording of V8 in the format of `.cpuprofile`; times are microseconds. */
export interface CpuProfile {
  nodes: ProfileNode[];
  startTime: number;
  endTime: number;
  /** The node on top of the stack at each sample. */
  samples: number[];
  /** Time since the previous sample. */
  timeDeltas: number[];
}

/** A connection to the inspector of one process. */
export interface Inspector {
  profile(durationMs: number): Promise<CpuProfile>;
  close(): void;
}

interface InspectorResponse {
  id?: number;
  result?: unknown;
  error?: { message: string };
}

/** Connects to the inspector that listens on a port of this machine. @throws when none does */
export async function connectInspector(port: number): Promise<Inspector> {
  const response = await fetch(`http://127.0.0.1:${port}/json/list`);
  const [target] = (await response.json()) as { webSocketDebuggerUrl: string }[];
  const socket = new WebSocket(target?.webSocketDebuggerUrl ?? '');
  const waiting = new Map<number, (response: InspectorResponse) => void>();
  let last = 0;
  socket.addEventListener('message', ({ data }) => {
    const message = JSON.parse(String(data)) as InspectorResponse;
    waiting.get(message.id ?? 0)?.(message);
    waiting.delete(message.id ?? 0);
  });
  socket.addEventListener('close', () => {
    for (const resolve of waiting.values()) resolve({ error: { message: 'the process ended' } });
    waiting.clear();
  });
  await once(socket, 'open');

  async function call(method: string, params: object = {}): Promise<unknown> {
    last += 1;
    const id = last;
    const responded = new Promise<InspectorResponse>((resolve) => waiting.set(id, resolve));
    socket.send(JSON.stringify({ id, method, params }));
    const { result, error } = await responded;
    if (error !== undefined) throw new Error(`${method}: ${error.message}`);
    return result;
  }

  return {
    async profile(durationMs) {
      await call('Profiler.enable');
      await call('Profiler.setSamplingInterval', { interval: INTERVAL_US });
      await call('Profiler.start');
      await sleep(durationMs);
      return ((await call('Profiler.stop')) as { profile: CpuProfile }).profile;
    },
    close: () => socket.close(),
  };
}
