import { PROVIDER_CHANNELS, type ProviderChannelName } from '@carillon/core/credentials';
import { z } from 'zod';
import { type Conducts, conductSchema } from '../answer/conduct.ts';
import { type Scripts, scriptSchema } from '../answer/scripts.ts';
import type { Named } from '../answer/step.ts';
import { type Called, Refused, type Route, readJson } from './route.ts';

const channelSchema = z.enum(PROVIDER_CHANNELS);

export interface BehaviourDeps {
  scripts: Scripts;
  conducts: Conducts;
  /** The named answers of each channel. */
  named: Record<ProviderChannelName, Named>;
}

/** How the servers answer from now on. */
export function behaviourRoutes(deps: BehaviourDeps): Route[] {
  const { scripts, conducts } = deps;
  return [
    {
      method: 'PUT',
      path: /^\/scripts\/(?<channel>[^/]+)\/(?<token>[^/]+)$/,
      handle: (called) => setScript(deps, called),
    },
    {
      method: 'PUT',
      path: /^\/servers\/(?<channel>[^/]+)$/,
      handle: async ({ request, params }) => {
        const change = await readJson(request, conductSchema);
        conducts.change(channelOf(params), change);
        return conducts.of(channelOf(params));
      },
    },
    { method: 'DELETE', path: /^\/scripts$/, handle: done(scripts.clear) },
    { method: 'DELETE', path: /^\/servers$/, handle: done(conducts.reset) },
  ];
}

async function setScript(
  { scripts, named }: BehaviourDeps,
  { request, params }: Called,
): Promise<unknown> {
  const channel = channelOf(params);
  const script = await readJson(request, scriptSchema);
  for (const { as, timestampMs } of script.answers) {
    if (as !== undefined && named[channel](as, timestampMs) === undefined) {
      throw new Refused(400, `${channel} has no answer that is called ${as}.`);
    }
  }
  if (!scripts.set(channel, params.token ?? '', script)) {
    throw new Refused(409, 'There are too many scripts; DELETE /scripts first.');
  }
  return {};
}

function channelOf({ channel }: Record<string, string>): ProviderChannelName {
  const parsed = channelSchema.safeParse(channel);
  if (parsed.success) return parsed.data;
  throw new Refused(404, `There is no channel ${channel}, only ${PROVIDER_CHANNELS.join(', ')}.`);
}

function done(what: () => void): () => object {
  return () => {
    what();
    return {};
  };
}
