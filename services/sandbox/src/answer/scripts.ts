import { PROVIDER_CHANNELS, type ProviderChannelName } from '@carillon/core/credentials';
import { z } from 'zod';
import { type Step, stepSchema } from './step.ts';

const MOST_SCRIPTS = 100_000;
const MOST_STEPS = 10_000;
const EVERY_TOKEN = '*';

/** The body of `PUT /scripts/CHANNEL/TOKEN`. */
export const scriptSchema = z.strictObject({
  answers: z.array(stepSchema).min(1).max(MOST_STEPS),
  /** After the last step as without a script; else the last one stays. */
  once: z.boolean().default(false),
});
type Script = z.infer<typeof scriptSchema>;

/** What the next requests are answered. */
export interface Scripts {
  /** @returns false when there are too many scripts */
  set(channel: ProviderChannelName, token: string, script: Script): boolean;
  /** The step for a request that came just now; undefined: as usual. */
  next(channel: ProviderChannelName, token: string): Step | undefined;
  /** The same, but only for a script of the token's own. */
  nextOwn(channel: ProviderChannelName, token: string): Step | undefined;
  clear(): void;
}

/** Makes scripts for no token. */
export function createScripts(): Scripts {
  const running = new Map<ProviderChannelName, Map<string, { script: Script; at: number }>>(
    PROVIDER_CHANNELS.map((channel) => [channel, new Map()]),
  );

  function step(channel: ProviderChannelName, token: string): Step | undefined {
    const own = running.get(channel);
    const found = own?.get(token);
    if (found === undefined) return undefined;
    const { answers, once } = found.script;
    const next = answers[Math.min(found.at, answers.length - 1)];
    found.at += 1;
    if (once && found.at === answers.length) own?.delete(token);
    return next;
  }

  return {
    set: (channel, token, script) => {
      const own = running.get(channel);
      if (own === undefined || own.size >= MOST_SCRIPTS) return false;
      own.set(token, { script, at: 0 });
      return true;
    },
    next: (channel, token) => {
      if (running.get(channel)?.size === 0) return undefined;
      return step(channel, token) ?? step(channel, EVERY_TOKEN);
    },
    nextOwn: step,
    clear: () => {
      for (const own of running.values()) own.clear();
    },
  };
}
