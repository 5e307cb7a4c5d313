/** Description of a route of the admin API in its reference. */
export interface Operation {
  /** Section of the reference. */
  tag: string;
  summary: string;
  /** Bodies of example requests by name; `body` where there is one. */
  examples?: Readonly<Record<string, object>>;
}

/** Ids in the examples. */
export const EXAMPLE_IDS = {
  account: '5f0c1e2d3b4a59687706f5e1',
  app: '5f0c1e2d3b4a59687706f5e4',
  device: 'a6345d0278adc55d3474f5',
} as const;

/** File of an example: its name, and where the content belongs. */
const file = (name: string) => ({ name, base64: Buffer.from('Content').toString('base64') });

const RANGE = { from: 1_795_250_000_000, to: 1_795_336_400_000 };

const accounts = describeAll('Accounts', {
  'get /accounts': 'List accounts',
  'post /accounts': ['Create an account', { name: 'Shop', plan: 'pro' }],
  'get /accounts/:account': 'Get an account',
  'put /accounts/:account': [
    'Rename, limit, suspend or resume an account',
    { name: 'Shop', requestLimit: 6_000, suspended: false },
  ],
});

const apps = describeAll('Apps', {
  'get /apps': 'List apps',
  'post /apps': [
    'Create an app, with its first API key',
    { account: EXAMPLE_IDS.account, name: 'Shop for phones' },
  ],
  'get /apps/:app': 'Get an app with its settings',
  'put /apps/:app': [
    'Change settings of an app, or pause it',
    { name: 'Shop', registration: 'closed', bundleIds: ['com.example.shop'], paused: false },
  ],
  'get /apps/:app/keys': 'List the API keys of an app',
  'post /apps/:app/keys': 'Create an API key, which is shown only once',
  'delete /apps/:app/keys/:id': 'Revoke an API key',
});

const credentials = describeAll('Credentials', {
  'get /apps/:app/credentials': 'List the credentials of an app',
  'put /apps/:app/credentials/:channel': {
    summary: 'Store the credential of an app at a provider',
    examples: {
      apns: { key: file('AuthKey_ABC123DEFG.p8'), keyId: 'ABC123DEFG', teamId: 'TEAM123456' },
      fcm: { serviceAccount: file('service-account.json') },
      'web-push': { contact: 'mailto:push@mail.net' },
    },
  },
  'delete /apps/:app/credentials/:channel': 'Remove the credential of an app at a provider',
  'post /apps/:app/credentials/:channel/test': [
    'Check a credential by a push to one device',
    { device: EXAMPLE_IDS.device },
  ],
});

const webhooks = describeAll('Webhooks', {
  'get /apps/:app/webhooks': 'List the webhooks of an app',
  'post /apps/:app/webhooks': [
    'Add a webhook, whose secret is shown only once',
    { url: 'https://receiver.example/hook', events: ['push.finished'] },
  ],
  'patch /apps/:app/webhooks/:id': [
    'Change the address or the events of a webhook',
    { events: ['push.finished', 'recipient.failed'] },
  ],
  'post /apps/:app/webhooks/:id/rotate': 'Replace the secret of a webhook',
  'post /apps/:app/webhooks/:id/off': 'Turn a webhook off',
  'post /apps/:app/webhooks/:id/on': 'Turn a webhook on',
  'delete /apps/:app/webhooks/:id': 'Remove a webhook',
  'post /apps/:app/webhooks/:id/test': 'Send a test event',
  'post /apps/:app/webhooks/:id/replay': ['Send the events of an interval again', RANGE],
  'get /apps/:app/webhooks/:id/requests': 'List the last requests to a webhook',
  'post /apps/:app/webhooks/:id/requests/:request/resend': 'Send a request again',
});

const deliveries = describeAll('Deliveries', {
  'get /apps/:app/pushes': 'List pushes',
  'get /pushes/:push': 'Get a push with its outcomes',
  'get /pushes/:push/recipients/:token': 'Get the outcome of a push for a device',
  'get /apps/:app/devices': 'List devices',
  'get /devices/:token/pushes': 'List the pushes to a device',
  'get /apps/:app/topics': 'List topics',
  'get /apps/:app/topics/:topic': 'Get a topic with its number of subscribers',
  'get /apps/:app/topics/:topic/subscribers': 'List the subscribers of a topic',
  'get /apps/:app/failures': 'List failed deliveries',
  'post /apps/:app/redrives': [
    'Send failed deliveries again',
    { filter: { channel: 'apns', ...RANGE } },
  ],
  'get /redrives/:redrive': 'Get the progress of a re-drive',
  'get /queues': 'Get the state of the queues',
});

/** The routes of the admin API by method and path. */
export const OPERATIONS: Readonly<Record<string, Operation>> = {
  ...accounts,
  ...apps,
  ...credentials,
  ...webhooks,
  ...deliveries,
};

type Description = string | [summary: string, example: object] | Omit<Operation, 'tag'>;

function describeAll(
  tag: string,
  descriptions: Record<string, Description>,
): Record<string, Operation> {
  const described = Object.entries(descriptions).map(([route, one]): [string, Operation] => {
    if (typeof one === 'string') return [route, { tag, summary: one }];
    if (!Array.isArray(one)) return [route, { tag, ...one }];
    const [summary, example] = one;
    return [route, { tag, summary, examples: { body: example } }];
  });
  return Object.fromEntries(described);
}
