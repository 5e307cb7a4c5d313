import { z } from 'zod';
import { type Carillon, commandRefusal, jsonOf } from './command-line.ts';
import type { Home } from './home.ts';

/** What the sandbox says of the credentials that it takes (its files hold the secrets). */
const told = z.object({
  apns: z.object({ host: z.string(), port: z.int(), keyId: z.string(), teamId: z.string() }),
  fcm: z.object({ host: z.string(), port: z.int() }),
});
const listed = z.array(z.object({ channel: z.string(), gateway: z.string().optional() }));

/**
 * Gives an app the sandbox's credentials, so that every channel can be tried without an account anywhere.
 * Credentials of its owner's own stay.
 *
 * @param sandbox base address of its control API
 */
export async function ensureSandboxCredentials(
  carillon: Carillon,
  home: Home,
  sandbox: string,
  app: string,
): Promise<void> {
  const [{ apns, fcm }, kept] = await Promise.all([
    fetch(`${sandbox}/credentials`).then(async (answer) => told.parse(await answer.json())),
    carillon('--json', 'credential', 'list', '--app', app).then((answer) =>
      listed.parse(jsonOf('Looking up the credentials', answer)),
    ),
  ]);
  const ca = ['--gateway-ca', home.at('sandbox/ca.pem')];
  const ids = ['--key-id', apns.keyId, '--team-id', apns.teamId];
  const wanted = [
    { channel: 'apns', at: apns, secret: ['--key', home.at('sandbox/apns.p8'), ...ids] },
    {
      channel: 'fcm',
      at: fcm,
      secret: ['--service-account', home.at('sandbox/service-account.json')],
    },
  ];
  await Promise.all(
    wanted.map(async ({ channel, at, secret }) => {
      const gateway = `${at.host}:${at.port}`;
      const present = kept.find((one) => one.channel === channel);
      // One without a gateway goes to the provider itself.
      if (present !== undefined && (present.gateway ?? gateway) === gateway) return;
      const place = ['credential', channel, '--app', app, '--gateway', gateway];
      const answer = await carillon(...place, ...ca, ...secret);
      if (answer.code !== 0) throw commandRefusal('Setting the sandbox’s credentials', answer);
    }),
  );
}
