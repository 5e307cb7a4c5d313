import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { newDeviceToken } from '../../packages/core/src/ids.ts';
import { attemptPush } from '../support/faults/attempts.ts';
import { insertDevices } from '../support/faults/device-pool.ts';
import { type KilledService, openKilledService } from '../support/faults/killed-service.ts';
import { sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { callApi } from '../support/stack/call-api.ts';

const LIMIT_MS = 120_000;

let killed: KilledService;
beforeAll(async () => {
  killed = await openKilledService('api');
});
afterAll(() => killed?.stop());

test.each<[failpoints: string, recipients: number, accepted: number]>([
  ['accept:kill#1', 3, 0],
  ['accept:kill#1', 2_000, 0],
  ['accept-batches:kill#1', 2_000, 0],
  ['accepted:kill#1', 3, 1],
  ['accepted:kill#1', 2_000, 1],
])(
  'at %s, with a push to %d devices: %d accepted',
  async (failpoints, recipients, accepted) => {
    const { set, mongo, killAt } = killed;
    const apiOf = ({ port }: { port: number }): Pick<typeof set, 'api'> => {
      const dev = { ...set.dev, api: `http://127.0.0.1:${port}` };
      return { api: (method, path, body) => callApi(dev, method, path, body) };
    };
    const tokens = Array.from({ length: recipients }, newDeviceToken);
    await insertDevices(set, mongo, tokens);
    const { caused, successor } = await killAt(failpoints, (api) =>
      attemptPush(apiOf(api), tokens),
    );
    expect(caused).toMatchObject({ isAccepted: false });
    const pushes = mongo.db.collection<{ _id: string }>('pushes');
    const stored = { data: caused.payload, state: { $ne: 'accepting' } };
    const found = await pushes.find(stored).toArray();
    expect(found).toHaveLength(accepted);
    const next = await sendPush(apiOf(successor), tokens);
    const ids = [next.id, ...found.map(({ _id }) => _id)];
    for (const id of ids) await untilOutcomes(mongo, { id }, { inbox: recipients });
    const rows = await mongo.db.collection('inbox').countDocuments({ push: { $in: ids } });
    expect(rows).toBe((accepted + 1) * recipients);
  },
  LIMIT_MS,
);
