import type { Stack } from '../stack.ts';

/** How many attempts the delivery-workers that run now have made over a channel, with or without a response. */
export async function countAttemptsOver(
  stack: Pick<Stack, 'dev'>,
  channel: string,
): Promise<number> {
  const line = new RegExp(
    `^carillon_provider_answers_total\\{[^}]*channel="${channel}".* (\\d+)$`,
    'gm',
  );
  let attempts = 0;
  for (const { service, ops } of stack.dev.processes) {
    if (service !== 'delivery-worker') continue;
    const text = await (await fetch(`${ops}/metrics`)).text();
    for (const [, n] of text.matchAll(line)) attempts += Number(n);
  }
  return attempts;
}
