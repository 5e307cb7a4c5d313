import { PROVIDER_CHANNELS, type ProviderChannelName } from '@carillon/core/channels';
import { deliverQueueName, WORKER_QUEUES, type WorkerQueue } from '@carillon/queue/jobs';
import { z } from 'zod';

/** Schema of a list of queues, separated by commas; all queues of delivery-workers if absent. */
export const queueList = z
  .string()
  .default(WORKER_QUEUES.join(','))
  .transform((text, context): WorkerQueue[] => {
    const names = new Set(text.split(',').map((name) => name.trim()));
    names.delete('');
    const unknown = [...names].filter((name) => !WORKER_QUEUES.some((known) => known === name));
    if (names.size > 0 && unknown.length === 0)
      return WORKER_QUEUES.filter((name) => names.has(name));
    const fault = names.size === 0 ? 'no queue is named' : `unknown: ${unknown.join(', ')}`;
    const message = `${fault}; write some of ${WORKER_QUEUES.join(', ')}, separated by commas`;
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  });

/** Returns the channels through providers that a process opens: those whose queue it takes. */
export function providerChannelsOf(queues: readonly WorkerQueue[]): ProviderChannelName[] {
  return PROVIDER_CHANNELS.filter((channel) => queues.includes(deliverQueueName(channel)));
}

/**
 * Reports CREDENTIAL_KEYS as missing if the process takes a queue of a provider or of webhooks. No other queue needs
 * them: `send` and `deliver-mqtt` deliver over MQTT alone.
 */
export function requireCredentialKeys(
  env: { QUEUES: readonly WorkerQueue[]; CREDENTIAL_KEYS?: unknown },
  context: z.RefinementCtx,
): void {
  const needsKeys = providerChannelsOf(env.QUEUES).length > 0 || env.QUEUES.includes('webhook');
  if (env.CREDENTIAL_KEYS !== undefined || !needsKeys) return;
  const message = 'required for the queues of providers and of webhooks (see QUEUES)';
  context.addIssue({ code: 'custom', path: ['CREDENTIAL_KEYS'], message });
}
