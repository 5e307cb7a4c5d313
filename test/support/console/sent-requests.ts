import { runCarillonJson } from '../carillon.ts';
import type { Stack } from '../stack.ts';
import { until } from '../until.ts';

interface SentRequest {
  id: string;
  at: string;
  status?: number;
  resendOf?: string;
}

/** Creates functions that list the requests of a webhook of the stack's app, and resend them, by the command line. */
export function createSentRequests({ home, dev }: Pick<Stack, 'home' | 'dev'>, webhook = '') {
  const ofApp = ['--app', dev.app];
  return {
    /** Waits until the last request is the expected one. It is recorded shortly after its response. */
    untilLast: (isExpected: (last: SentRequest) => boolean): Promise<SentRequest> =>
      until(async () => {
        const list = ['webhook', 'deliveries', webhook, ...ofApp];
        const [last] = await runCarillonJson<SentRequest[]>(home, ...list);
        return last !== undefined && isExpected(last) && last;
      }),
    resend: (id: string): Promise<unknown> =>
      runCarillonJson(home, 'webhook', 'resend', webhook, id, ...ofApp),
  };
}
