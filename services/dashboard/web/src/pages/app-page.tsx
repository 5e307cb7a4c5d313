import '@mantine/core/styles/Tabs.css';
import { Tabs, Text } from '@mantine/core';
import { useGet } from '../api/use-get.ts';
import { usePathId, useUrl } from '../lib/use-url.ts';
import { countTurnedOff } from '../lib/webhook-words.ts';
import { Id } from '../parts/id.tsx';
import { Loaded } from '../parts/loaded.tsx';
import { Page } from '../parts/page.tsx';
import { CredentialsTab } from './app/credentials-tab.tsx';
import { KeysTab } from './app/keys-tab.tsx';
import { SettingsTab } from './app/settings-tab.tsx';
import { WebhooksTab } from './app/webhooks-tab.tsx';

/** Shows an app's keys, credentials, webhooks and settings. */
export function AppPage() {
  const id = usePathId('app');
  const app = useGet(`/apps/${id}`);
  const { search, change } = useUrl<'tab'>();
  return (
    <Page title={app.data?.name ?? 'App'} description={<Id id={id} label="Copy the app’s id" />}>
      <Tabs
        value={search.tab ?? 'keys'}
        onChange={(tab) => change({ tab: tab === 'keys' || tab === null ? undefined : tab })}
        keepMounted={false}
      >
        <Tabs.List mb="md">
          <Tabs.Tab value="keys">API keys</Tabs.Tab>
          <Tabs.Tab value="credentials">Credentials</Tabs.Tab>
          <Tabs.Tab value="webhooks">
            Webhooks
            <TurnedOff app={id} />
          </Tabs.Tab>
          <Tabs.Tab value="settings">Settings</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="keys">
          <KeysTab app={id} />
        </Tabs.Panel>
        <Tabs.Panel value="credentials">
          <CredentialsTab app={id} />
        </Tabs.Panel>
        <Tabs.Panel value="webhooks">
          <WebhooksTab app={id} />
        </Tabs.Panel>
        <Tabs.Panel value="settings">
          <Loaded query={app} height={360}>
            {(found) => <SettingsTab key={found.id} app={found} />}
          </Loaded>
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

/** Says in the name of the tab that failures have turned webhooks off, whichever tab is open. */
function TurnedOff({ app }: { app: string }) {
  const count = countTurnedOff(useGet(`/apps/${app}/webhooks`).data?.items ?? []);
  if (count === 0) return null;
  return <Text span inherit c="var(--mantine-color-error)">{` (${count} turned off)`}</Text>;
}
