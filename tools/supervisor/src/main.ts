import { UserError } from '../bootstrap/terminal.mjs';
import { formatBanner } from './banner.ts';
import { parseBootstrapConfig } from './bootstrap-config.ts';
import { diskFullHint, isDiskFull, openDataDir } from './data-dir.ts';
import { createStack } from './stack.ts';

// Time in which further signals belong to the same Ctrl-C: npm forwards the signal that the terminal has already sent.
const SAME_KEYSTROKE_MS = 700;

async function main(): Promise<number> {
  const config = parseBootstrapConfig(process.env.CARILLON_HANDOVER);
  const dataDir = openDataDir(config.home);
  const print = (line: string) => process.stdout.write(`${line}\n`);
  const stack = createStack(config, dataDir, print);
  const stopRequested = Promise.withResolvers<'stop'>();
  let firstRequestedAt: number | undefined;
  const requestStop = () => {
    if (firstRequestedAt === undefined) {
      firstRequestedAt = performance.now();
      print('Stopping … (press Ctrl-C again to stop at once)');
      stopRequested.resolve('stop');
    } else if (performance.now() - firstRequestedAt > SAME_KEYSTROKE_MS) {
      void stack.stop();
    }
  };
  // The channel closes when the bootstrap has died, which would no longer forward a Ctrl-C.
  for (const event of ['SIGINT', 'SIGTERM', 'SIGHUP', 'disconnect']) process.on(event, requestStop);
  try {
    const result = await Promise.race([stack.start(), stopRequested.promise, stack.failed]);
    if (result !== 'stop') {
      print(formatBanner(config, result));
      await Promise.race([stopRequested.promise, stack.failed]);
    }
    return 0;
  } catch (error) {
    reportError(error);
    if (isDiskFull(config.home) && !String(error).includes('is full')) {
      process.stderr.write(`${diskFullHint(config.home)}\n`);
    }
    return 1;
  } finally {
    await stack.stop();
    process.off('disconnect', requestStop);
  }
}

// Prints a stack only for a bug; a UserError prints its message.
function reportError(error: unknown): void {
  const detail = error instanceof Error && !(error instanceof UserError) ? error.stack : error;
  process.stderr.write(`${detail instanceof Error ? detail.message : detail}\n`);
}

// Output that can't be written (its file is on a full disk, its reader has ended) must not end the stack.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
try {
  process.exitCode = await main();
} catch (error) {
  reportError(error);
  process.exitCode = 1;
}
// The IPC channel to the bootstrap would keep the process alive.
if (process.connected) process.disconnect();
