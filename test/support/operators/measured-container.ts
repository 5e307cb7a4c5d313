import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startProcess } from '../child-process.ts';
import { readResidentBytes } from '../resident-memory.ts';
import { until } from '../until.ts';

const LIMIT_BYTES = 256 * 1_024 * 1_024;
const LABELS = '{pod="api-0",container="api"}';

/** Takes 95 % of the limit at the first signal, and frees it at the second. */
const SCRIPT = `
  let kept = [];
  process.on('SIGUSR2', () => {
    if (kept.length > 0) kept = [];
    else while (process.memoryUsage.rss() < 0.95 * ${LIMIT_BYTES}) kept.push(Buffer.alloc(2 ** 24, 1));
    gc();
  });
  setInterval(() => gc(), 1_000);
  console.log('ready');`;

/** A process whose memory is exposed as the kubelet exposes that of a container. */
export interface MeasuredContainer {
  /** Base URL of the metrics. */
  ops: string;
  /** Fills its memory nearly to the limit, or frees it again. */
  toggle(): void;
  stop(): Promise<void>;
}

/** Starts a process that simulates a container with a limit of 256 MB. */
export async function startMeasuredContainer(): Promise<MeasuredContainer> {
  const child = startProcess(process.execPath, ['--expose-gc', '-e', SCRIPT]);
  await until(() => child.output().includes('ready'), { timeoutMs: 30_000 });
  const server = createServer((_request, response) => {
    const used = `container_memory_working_set_bytes${LABELS} ${readResidentBytes(child.pid)}`;
    const limit = `container_spec_memory_limit_bytes${LABELS} ${LIMIT_BYTES}`;
    response.setHeader('content-type', 'text/plain; version=0.0.4').end(`${used}\n${limit}\n`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    ops: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    toggle: () => child.kill('SIGUSR2'),
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await child.stop();
    },
  };
}
