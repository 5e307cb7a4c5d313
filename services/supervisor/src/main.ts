import { banner } from './banner.ts';
import { readHandover } from './handover.ts';
import { openHome } from './home.ts';
import { Refusal } from './refusal.ts';
import { createStack } from './stack.ts';

// One Ctrl-C can come as several signals, as npm passes on what the terminal sent already.
const SAME_KEYSTROKE_MS = 700;

async function main(): Promise<number> {
  const handover = readHandover(process.env.CARILLON_HANDOVER);
  const home = openHome(handover.home);
  const say = (line: string) => process.stdout.write(`${line}\n`);
  const stack = createStack(handover, home, say);
  const stopAsked = Promise.withResolvers<'stop'>();
  let firstAskedAt: number | undefined;
  const ask = () => {
    if (firstAskedAt === undefined) {
      firstAskedAt = performance.now();
      say('Stopping … (once more to end it at once)');
      stopAsked.resolve('stop');
    } else if (performance.now() - firstAskedAt > SAME_KEYSTROKE_MS) {
      void stack.stop();
    }
  };
  // The channel closes when the bootstrap has died: then nobody would pass on a Ctrl-C.
  for (const event of ['SIGINT', 'SIGTERM', 'SIGHUP', 'disconnect']) process.on(event, ask);
  try {
    const running = await Promise.race([stack.start(), stopAsked.promise]);
    if (running !== 'stop') {
      say(banner(handover, running));
      await stopAsked.promise;
    }
    return 0;
  } catch (error) {
    tell(error);
    return 1;
  } finally {
    await stack.stop();
    process.off('disconnect', ask);
  }
}

// Only a fault of ours shows where it is.
function tell(error: unknown): void {
  const words = error instanceof Error && !(error instanceof Refusal) ? error.stack : error;
  process.stderr.write(`${words instanceof Error ? words.message : words}\n`);
}

try {
  process.exitCode = await main();
} catch (error) {
  tell(error);
  process.exitCode = 1;
}
// The channel to the bootstrap would keep the process alive.
if (process.connected) process.disconnect();
