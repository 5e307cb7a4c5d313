import { createBatcher } from '@carillon/core/batcher';
import type { PresenceServer } from './presence-server.ts';
import { hasSingleServer } from './redis.ts';
import type { DeliveryResult } from './replies.ts';

/** A message for the gateway of a device, as the fields of a stream entry. */
interface DeviceMessage {
  token: string;
  fields: readonly string[];
}

/** Result of a message: `sent`, or the reason why it was not. */
type DispatchState = 'sent' | 'offline' | Extract<DeliveryResult, 'not-sent' | 'not-connected'>;

/**
 * Adds each message to the stream of the gateway that its device is connected to. A device without an entry, or whose gateway
 * has no lease, is offline; a gateway with credit 0 gets nothing; one without a stream has stopped or has a new identity.
 * MGET reads a value of another type as absent, as the presence reader does.
 *
 * KEYS: presence entries. ARGV: prefixes of leases and of streams, then the fields of each message, as many for each. Returns
 * a state for each, or the error of a stream that could not be written: it does not concern the other messages. A replica
 * has added none: its error is returned as the script's, so that the connection goes to the primary (redis.ts).
 */
const DISPATCH_SCRIPT = `
local states = {}
local credits = {}
local size = (#ARGV - 2) / #KEYS
for i, entry in ipairs(redis.call('MGET', unpack(KEYS))) do
  local gateway = string.match(entry or '', '^([^|]+)|[^|]')
  if gateway and credits[gateway] == nil then
    credits[gateway] = redis.call('MGET', ARGV[1] .. gateway)[1]
  end
  local credit = gateway and credits[gateway]
  if not credit then states[i] = 'offline'
  elseif tonumber(credit) == 0 then states[i] = 'not-sent'
  else
    local from = 3 + (i - 1) * size
    local fields = {unpack(ARGV, from, from + size - 1)}
    local id = redis.pcall('XADD', ARGV[2] .. gateway, 'NOMKSTREAM', '*', unpack(fields))
    if type(id) == 'table' then
      if string.find(id.err, '^READONLY') then return id end
      states[i] = id.err
    elseif id then states[i] = 'sent'
    else states[i] = 'not-connected' end
  end
end
return states`;

const STATES: ReadonlySet<string> = new Set<DispatchState>([
  'sent',
  'offline',
  'not-sent',
  'not-connected',
]);
/** Payloads of as many pushes are in one command. */
const MESSAGES_PER_CALL = 50;

/** Creates the dispatch to single devices. It takes one round trip, which messages of the same moment share. */
export function createDeviceDispatch({ redis, keys }: Pick<PresenceServer, 'redis' | 'keys'>) {
  async function runScript(messages: readonly DeviceMessage[]): Promise<(DispatchState | Error)[]> {
    const states = (await redis.eval(
      DISPATCH_SCRIPT,
      messages.length,
      ...messages.map(({ token }) => keys.presence(token)),
      keys.lease(''),
      keys.gatewayStream(''),
      ...messages.flatMap(({ fields }) => fields),
    )) as string[];
    const outcomes = states.map((state) =>
      STATES.has(state) ? (state as DispatchState) : new Error(`Redis: ${state}`),
    );
    // The server takes no writes.
    if (outcomes.every((outcome) => outcome instanceof Error)) throw outcomes[0];
    return outcomes;
  }

  return {
    /** False in a cluster, where some of the script's keys may be on another server. */
    isSupported: hasSingleServer(redis),
    /** Sends a message. Throws if Redis fails; the message may have been added then. */
    send: createBatcher<DeviceMessage, DispatchState>('dispatch-push', runScript, {
      maxBatchSize: MESSAGES_PER_CALL,
      maxInFlight: 2,
    }),
  };
}
