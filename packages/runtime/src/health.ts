import type { EventLoopWatch } from './event-loop.ts';
import type { Logger } from './logger.ts';
import type { Health } from './ops-server.ts';
import { type Progress, toTenths } from './progress.ts';
import type { StartConditions } from './start-conditions.ts';

const BLOCKED = 'the event loop is blocked again and again';

/**
 * Creates the readiness and liveness of a process. Neither depends on whether MongoDB or Redis responds: all processes
 * share these servers, so their outage would make all processes unready or restart all at once, without any benefit.
 */
export function createHealth({
  log,
  progress,
  eventLoop,
  conditions,
  stopping,
}: {
  log: Pick<Logger, 'error'>;
  progress: Progress;
  eventLoop: EventLoopWatch;
  conditions: StartConditions;
  stopping: AbortSignal;
}): Health & { markStarted(): void; isStarted(): boolean } {
  let isStarted = false;
  let logged = '';

  /** Logs faults once, when they begin or change. */
  function report(faults: string[]): string[] {
    const text = faults.join(', ');
    if (text !== '' && text !== logged) log.error({ faults }, 'no progress');
    logged = text;
    return faults;
  }

  const standStill = (name: string) => `${name}: no progress`;
  return {
    markStarted(): void {
      isStarted = true;
    },
    isStarted: () => isStarted,
    async readiness() {
      if (stopping.aborted) return ['stopping'];
      if (!isStarted) return [`not started: waiting for ${conditions.pending() ?? 'its parts'}`];
      const { unready } = await progress.check();
      return report([...(eventLoop.state() === 'ok' ? [] : [BLOCKED]), ...unready.map(standStill)]);
    },
    async liveness() {
      // A process that stops ends by its own deadline.
      if (stopping.aborted) return [];
      const { dead } = await progress.check();
      return [...(eventLoop.state() === 'dead' ? [BLOCKED] : []), ...dead.map(standStill)];
    },
    progress: () => [
      {
        name: 'event loop',
        secondsAgo: toTenths(eventLoop.measureBeatAge()),
        state: eventLoop.state(),
      },
      ...progress.list(),
    ],
  };
}
