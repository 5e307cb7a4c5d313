import { PROVIDER_CHANNELS, type ProviderChannelName } from '@carillon/core/channels';
import { z } from 'zod';
import { type ScriptStep, scriptStepSchema } from './script-step.ts';

const MAX_SCRIPTS = 100_000;
const MAX_STEPS = 10_000;
const ANY_TOKEN = '*';

/** The body of `PUT /scripts/CHANNEL/TOKEN`. */
export const scriptSchema = z.strictObject({
  answers: z.array(scriptStepSchema).min(1).max(MAX_STEPS),
  /** Ends the script after its last step; otherwise the last step repeats. */
  once: z.boolean().default(false),
});
type Script = z.infer<typeof scriptSchema>;

/** Scripted responses by channel and token. */
export type Scripts = ReturnType<typeof createScripts>;

/** Creates an empty set of scripts. */
export function createScripts() {
  const scriptsByChannel = new Map<
    ProviderChannelName,
    Map<string, { script: Script; nextIndex: number }>
  >(PROVIDER_CHANNELS.map((channel) => [channel, new Map()]));

  function advance(channel: ProviderChannelName, token: string): ScriptStep | undefined {
    const scriptsByToken = scriptsByChannel.get(channel);
    const active = scriptsByToken?.get(token);
    if (active === undefined) return undefined;
    const { answers, once } = active.script;
    const next = answers[Math.min(active.nextIndex, answers.length - 1)];
    active.nextIndex += 1;
    if (once && active.nextIndex === answers.length) scriptsByToken?.delete(token);
    return next;
  }

  return {
    /** @returns false when there are too many scripts */
    set: (channel: ProviderChannelName, token: string, script: Script): boolean => {
      const scriptsByToken = scriptsByChannel.get(channel);
      if (scriptsByToken === undefined || scriptsByToken.size >= MAX_SCRIPTS) return false;
      scriptsByToken.set(token, { script, nextIndex: 0 });
      return true;
    },
    /**
     * Takes the next step for a token, or for any token.
     *
     * @returns undefined if there is no script
     */
    next: (channel: ProviderChannelName, token: string): ScriptStep | undefined => {
      if (scriptsByChannel.get(channel)?.size === 0) return undefined;
      return advance(channel, token) ?? advance(channel, ANY_TOKEN);
    },
    /** Takes the next step of the token's own script. */
    nextForTokenOnly: advance,
    clear: (): void => {
      for (const scriptsByToken of scriptsByChannel.values()) scriptsByToken.clear();
    },
  };
}
