import { Button, NativeSelect } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { change } from '../api/request.ts';
import type { Account, App } from '../api/types.ts';
import { useChange } from '../api/use-change.ts';
import { useList } from '../api/use-get.ts';
import { useUrl } from '../lib/use-url.ts';
import { Empty } from '../parts/empty.tsx';
import { Choice, Filters } from '../parts/filters.tsx';
import { FormDialog } from '../parts/form-dialog.tsx';
import { Id } from '../parts/id.tsx';
import { TextLink } from '../parts/links.tsx';
import { type Column, List } from '../parts/list.tsx';
import { NameField } from '../parts/name-field.tsx';
import { Page } from '../parts/page.tsx';
import { SecretDialog } from '../parts/secret-dialog.tsx';
import { Time } from '../parts/time.tsx';
import { useMay } from '../shell/session.ts';

const MAX_ACCOUNTS = 100;

/** Lists apps and creates them. */
export function AppsPage() {
  const { search, change: setUrl } = useUrl<'account' | 'cursor'>();
  const { account, cursor } = search;
  const query = useList('/apps', { account, cursor });
  const accounts = useList('/accounts', { limit: MAX_ACCOUNTS }).data?.items ?? [];
  const mayCreate = useMay('admin');
  const [isCreating, setCreating] = useState(false);
  return (
    <Page
      title="Apps"
      description="An app has its own devices, keys, credentials and pushes."
      actions={
        mayCreate && (
          <Button size="xs" onClick={() => setCreating(true)}>
            Create an app
          </Button>
        )
      }
    >
      {accounts.length > 1 && (
        <Filters>
          <Choice
            label="Account"
            value={account}
            options={accounts.map(({ id, name }) => ({ value: id, label: name }))}
            onChange={(value) => setUrl({ account: value })}
          />
        </Filters>
      )}
      <List
        query={query}
        columns={listColumns(accounts)}
        idOf={({ id }) => id}
        isPaged
        empty={
          <Empty title="No apps yet">
            {mayCreate
              ? 'Create an app to get its first API key, with which a backend sends pushes.'
              : 'An admin creates apps.'}
          </Empty>
        }
      />
      {isCreating && <CreateApp accounts={accounts} onClose={() => setCreating(false)} />}
    </Page>
  );
}

function listColumns(accounts: readonly Account[]): Column<App>[] {
  const nameOf = (account: string) => accounts.find(({ id }) => id === account)?.name ?? account;
  return [
    {
      accessor: 'name',
      title: 'App',
      render: ({ id, name }) => (
        <TextLink fz="sm" to="/apps/$app/pushes" params={{ app: id }}>
          {name}
        </TextLink>
      ),
    },
    { accessor: 'account', title: 'Account', render: ({ account }) => nameOf(account) },
    { accessor: 'id', title: 'Id', render: ({ id }) => <Id id={id} /> },
    { accessor: 'createdAt', title: 'Created', render: ({ createdAt }) => <Time at={createdAt} /> },
    {
      accessor: 'registration',
      title: 'Actions',
      render: ({ id }) => (
        <TextLink fz="sm" to="/apps/$app" params={{ app: id }}>
          Keys and settings
        </TextLink>
      ),
    },
  ];
}

function CreateApp({ accounts, onClose }: { accounts: readonly Account[]; onClose: () => void }) {
  const [name, setName] = useState('');
  const [account, setAccount] = useState(accounts[0]?.id ?? '');
  const navigate = useNavigate();
  const create = useChange({
    run: () => change('POST', '/apps', { account, name }),
    outdated: [['/apps']],
  });
  const { data } = create;
  if (data !== undefined) {
    return (
      <SecretDialog
        title="First API key of the app"
        note="The server stores only its digest: this is the only time that it is shown."
        secret={data.key}
        onClose={() => {
          onClose();
          void navigate({
            to: '/apps/$app',
            params: { app: data.id },
            search: { tab: 'credentials' },
          });
        }}
      />
    );
  }
  return (
    <FormDialog
      title="Create an app"
      action="Create"
      isPending={create.isPending}
      isDisabled={account === ''}
      onSubmit={create.mutate}
      onClose={onClose}
    >
      <NativeSelect
        label="Account"
        value={account}
        data={accounts.map(({ id, name: label }) => ({ value: id, label }))}
        {...(accounts.length === 0 && { description: 'Create an account first.' })}
        onChange={({ currentTarget }) => setAccount(currentTarget.value)}
      />
      <NameField name={name} onChange={setName} />
    </FormDialog>
  );
}
