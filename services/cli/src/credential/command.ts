import {
  type Gateway,
  PROVIDER_CHANNELS,
  type ProviderChannelName,
} from '@carillon/core/credentials';
import { parseSealingKeys } from '@carillon/core/sealing';
import { credentialId } from '@carillon/store/credentials';
import type { Store } from '@carillon/store/store';
import { Argument, type Command, Option } from 'commander';
import { needApp, withStore } from '../database.ts';
import { misused, refused } from '../failure.ts';
import type { Output } from '../output.ts';
import { need, type Stack } from '../stack.ts';
import { type AppleCertificateOptions, checkAppleCertificate } from './apple-certificate.ts';
import { type AppleTokenOptions, checkAppleToken } from './apple-token.ts';
import { type Checked, readGiven } from './checked.ts';
import { checkServiceAccount } from './firebase.ts';
import { keepCredential, linesOf, type Place, placeOf, viewOf } from './keep.ts';
import { addSandboxCommand } from './sandbox.ts';
import { checkWebPush, type WebPushOptions } from './web-push.ts';

interface Common extends Omit<Place, 'channel'> {
  gateway?: Gateway;
  gatewayCa?: string;
}

type AppleOptions = Common & Partial<AppleTokenOptions & AppleCertificateOptions>;

/** `carillon credential …`: what apps need to send through Apple, Google and the browsers' push services. */
export function addCredentialCommands(
  program: Command,
  { stack, output }: { stack: () => Stack; output: Output },
): void {
  const credential = program
    .command('credential')
    .description("what an app needs to send through its platforms' providers");

  async function keep(options: Common, checked: Checked, isSafe?: (store: Store) => Promise<void>) {
    const where = stack();
    const keys = parseSealingKeys(need(where, 'sealingKeys'));
    const kept = await withStore(where, async (store) => {
      await needApp(store, options.app);
      await isSafe?.(store);
      const { channel } = checked;
      return keepCredential(store, keys, { ...options, channel }, checked, gatewayOf(options));
    });
    output.show(viewOf(kept), linesOf(kept));
  }

  addAppleCommand(credential, keep);
  addFirebaseCommand(credential, keep);
  addWebPushCommand(credential, keep);
  addSandboxCommand(credential, { stack, output });
  credential
    .command('list')
    .description("list an app's credentials, never the secrets")
    .requiredOption('--app <id>', 'the app')
    .action(async ({ app }: { app: string }) => {
      const found = await withStore(stack(), async (store) => {
        await needApp(store, app);
        return store.credentials.list(app);
      });
      output.show(found.map(viewOf), found.flatMap(linesOf));
    });
  environmentOption(
    credential
      .command('remove')
      .description('remove a credential')
      .addArgument(new Argument('<channel>').choices(PROVIDER_CHANNELS))
      .requiredOption('--app <id>', 'the app'),
  ).action(async (channel: ProviderChannelName, options: Common) => {
    const place = placeOf({ ...options, channel });
    const isRemoved = await withStore(stack(), (store) => store.credentials.remove(place));
    if (!isRemoved) throw refused(`App ${options.app} has no such credential.`);
    const id = credentialId(place);
    output.show({ id }, [`Credential ${id} removed.`]);
  });
}

type Keep = (
  options: Common,
  checked: Checked,
  isSafe?: (store: Store) => Promise<void>,
) => Promise<void>;

function addAppleCommand(parent: Command, keep: Keep): void {
  gatewayOptions(
    environmentOption(
      parent
        .command('apns')
        .description('set what APNs wants: a .p8 key with its ids, or a .p12 certificate')
        .requiredOption('--app <id>', 'the app')
        .option('--key <file>', 'the .p8 file')
        .option('--key-id <id>', "the key's id, unless the file's name says it")
        .option('--team-id <id>', "the team's id")
        .option('--certificate <file>', 'the .p12 file, or PEM')
        .option('--passphrase-file <file>', 'a file with its passphrase'),
    ),
  ).action((options: AppleOptions) => {
    const { key, certificate } = options;
    if ((key === undefined) === (certificate === undefined)) {
      throw misused('Give either --key with a .p8 file or --certificate with a .p12 file.');
    }
    const checked =
      certificate === undefined
        ? checkAppleToken({ ...options, key: key ?? '' })
        : checkAppleCertificate({ ...options, certificate });
    return keep(options, checked);
  });
}

function addFirebaseCommand(parent: Command, keep: Keep): void {
  gatewayOptions(
    parent
      .command('fcm')
      .description("set what FCM wants: a service account's key file")
      .requiredOption('--app <id>', 'the app')
      .requiredOption('--service-account <file>', 'the JSON file'),
  ).action((options: Common & { serviceAccount: string }) =>
    keep(options, checkServiceAccount(options.serviceAccount)),
  );
}

function addWebPushCommand(parent: Command, keep: Keep): void {
  parent
    .command('web-push')
    .description('set the key pair for browsers; a new one unless one is given')
    .requiredOption('--app <id>', 'the app')
    .option('--public-key <key>', 'base64url')
    .option('--private-key-file <file>', 'a file with the private key, base64url')
    .option('--contact <url>', 'a mailto: or https: address for the push services')
    .option('--replace', 'replace a pair: all browsers that subscribed with it must do so again')
    .action((options: Common & WebPushOptions & { replace?: true }) => {
      const checked = checkWebPush(options);
      return keep(options, checked, async (store) => {
        const present = await store.credentials.webPushPublicKey(options.app);
        const isSame = present === undefined || present === checked.about.publicKey;
        if (isSame || options.replace) return;
        throw refused(
          'The app has a key pair, and browsers that subscribed with it would get nothing more. Say --replace if that is wanted.',
        );
      });
    });
}

function environmentOption(command: Command): Command {
  return command.addOption(
    new Option(
      '--environment <environment>',
      'only for devices of this environment of APNs, where the app has a credential for each',
    ).choices(['development', 'production']),
  );
}

function gatewayOptions(command: Command): Command {
  return command
    .option(
      '--gateway <host:port>',
      "reached here instead of at the provider's own address",
      gateway,
    )
    .option('--gateway-ca <file>', "certificate of the authority that signed the gateway's, PEM");
}

function gateway(text: string): Gateway {
  const [, host, port] = /^(.+):(\d{1,5})$/.exec(text) ?? [];
  if (host !== undefined && port !== undefined) return { host, port: Number(port) };
  throw misused('--gateway must be host:port.');
}

/** Where the provider is reached, with what its certificate is checked against. */
function gatewayOf({ gateway: at, gatewayCa }: Common): Gateway | undefined {
  if (at === undefined || gatewayCa === undefined) return at;
  return { ...at, ca: readGiven(gatewayCa).toString('utf8') };
}
