import { PROVIDER_CHANNELS, type ProviderChannelName } from '@carillon/core/channels';
import { z } from 'zod';
import { type FaultConfigs, faultConfigSchema } from '../response/fault-config.ts';
import type { FindCannedResponse } from '../response/script-step.ts';
import { type Scripts, scriptSchema } from '../response/scripts.ts';
import { HttpError, type RequestContext, type Route, readJson } from './route.ts';

const channelSchema = z.enum(PROVIDER_CHANNELS);

export interface FaultRoutesOptions {
  scripts: Scripts;
  faultConfigs: FaultConfigs;
  /** Finds the canned responses of each channel. */
  cannedResponses: Record<ProviderChannelName, FindCannedResponse>;
}

/** Creates the routes that set scripts and faults. */
export function createFaultRoutes(options: FaultRoutesOptions): Route[] {
  const { scripts, faultConfigs } = options;
  return [
    {
      method: 'PUT',
      path: /^\/scripts\/(?<channel>[^/]+)\/(?<token>[^/]+)$/,
      handle: (context) => setScript(options, context),
    },
    {
      method: 'PUT',
      path: /^\/servers\/(?<channel>[^/]+)$/,
      handle: async ({ request, params }) => {
        const change = await readJson(request, faultConfigSchema);
        faultConfigs.change(parseChannel(params), change);
        return faultConfigs.get(parseChannel(params));
      },
    },
    { method: 'DELETE', path: /^\/scripts$/, handle: runAndReplyEmpty(scripts.clear) },
    { method: 'DELETE', path: /^\/servers$/, handle: runAndReplyEmpty(faultConfigs.reset) },
  ];
}

async function setScript(
  { scripts, cannedResponses }: FaultRoutesOptions,
  { request, params }: RequestContext,
): Promise<unknown> {
  const channel = parseChannel(params);
  const script = await readJson(request, scriptSchema);
  for (const { as, timestampMs } of script.answers) {
    if (as !== undefined && cannedResponses[channel](as, timestampMs) === undefined) {
      throw new HttpError(400, `${channel} has no response named ${as}.`);
    }
  }
  if (!scripts.set(channel, params.token ?? '', script)) {
    throw new HttpError(409, 'There are too many scripts; DELETE /scripts first.');
  }
  return {};
}

function parseChannel({ channel }: Record<string, string>): ProviderChannelName {
  const parsed = channelSchema.safeParse(channel);
  if (parsed.success) return parsed.data;
  throw new HttpError(404, `There is no channel ${channel}, only ${PROVIDER_CHANNELS.join(', ')}.`);
}

function runAndReplyEmpty(action: () => void): () => object {
  return () => {
    action();
    return {};
  };
}
