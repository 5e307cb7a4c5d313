import { Badge, Button, Group, NativeSelect, TextInput } from '@mantine/core';
import { useState } from 'react';
import { change } from '../api/request.ts';
import type { Account } from '../api/types.ts';
import { useChange } from '../api/use-change.ts';
import { useList } from '../api/use-get.ts';
import { formatCount } from '../lib/times.ts';
import { useUrl } from '../lib/use-url.ts';
import { confirm } from '../parts/confirm.tsx';
import { Empty } from '../parts/empty.tsx';
import { FormDialog } from '../parts/form-dialog.tsx';
import { Id } from '../parts/id.tsx';
import { TextLink } from '../parts/links.tsx';
import { type Column, List } from '../parts/list.tsx';
import { NameField } from '../parts/name-field.tsx';
import { Page } from '../parts/page.tsx';
import { useMayInstallation } from '../shell/session.ts';

type OpenDialog = { kind: 'create' } | { kind: 'limit'; account: Account };

/** Lists accounts, creates them, limits and suspends them. */
export function AccountsPage() {
  const { search } = useUrl<'cursor'>();
  const query = useList('/accounts', { cursor: search.cursor });
  const mayChange = useMayInstallation('admin');
  const [dialog, setDialog] = useState<OpenDialog>();
  const close = () => setDialog(undefined);
  const columns = useColumns(mayChange, (account) => setDialog({ kind: 'limit', account }));
  return (
    <Page
      title="Accounts"
      description="An account has apps, a limit of requests, and can be suspended."
      actions={
        mayChange && (
          <Button size="xs" onClick={() => setDialog({ kind: 'create' })}>
            Create an account
          </Button>
        )
      }
    >
      <List
        query={query}
        columns={columns}
        idOf={({ id }) => id}
        isPaged
        empty={
          <Empty title="No accounts yet">Apps belong to accounts. Create the first one.</Empty>
        }
      />
      {dialog?.kind === 'create' && <CreateAccount onClose={close} />}
      {dialog?.kind === 'limit' && <SetLimit account={dialog.account} onClose={close} />}
    </Page>
  );
}

function useColumns(mayChange: boolean, onLimit: (account: Account) => void): Column<Account>[] {
  const suspend = useChange({
    run: ({ id, suspended }: Account) =>
      change('PUT', `/accounts/${id}`, { suspended: !suspended }),
    outdated: [['/accounts']],
    done: 'The account is changed.',
  });
  const ask = (account: Account) => {
    if (account.suspended) return suspend.mutate(account);
    confirm({
      title: `Suspend ${account.name}?`,
      text: 'The API rejects its requests until it is resumed.',
      action: 'Suspend',
      onConfirm: () => suspend.mutate(account),
    });
  };
  const columns: Column<Account>[] = [
    {
      accessor: 'name',
      title: 'Account',
      render: ({ id, name, suspended }) => (
        <Group gap="xs">
          <TextLink fz="sm" to="/apps" search={{ account: id }}>
            {name}
          </TextLink>
          {suspended && (
            <Badge size="sm" variant="outline" color="red" c="var(--mantine-color-error)" tt="none">
              Suspended
            </Badge>
          )}
        </Group>
      ),
    },
    { accessor: 'plan', title: 'Plan' },
    {
      accessor: 'limit',
      title: 'Requests per minute',
      textAlign: 'right',
      render: ({ limit }) => describeLimit(limit),
    },
    { accessor: 'id', title: 'Id', render: ({ id }) => <Id id={id} /> },
  ];
  if (!mayChange) return columns;
  const action: Column<Account> = {
    accessor: 'suspended',
    title: 'Actions',
    textAlign: 'right',
    render: (account) => (
      <Group gap={6} justify="flex-end" wrap="nowrap">
        <Button size="compact-xs" variant="default" onClick={() => onLimit(account)}>
          Limit
        </Button>
        <Button size="compact-xs" variant="default" onClick={() => ask(account)}>
          {account.suspended ? 'Resume' : 'Suspend'}
        </Button>
      </Group>
    ),
  };
  return [...columns, action];
}

function describeLimit(limit: number | null | undefined): string {
  if (limit === undefined) return 'of the plan';
  return limit === null ? 'unlimited' : formatCount(limit);
}

function CreateAccount({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('');
  const [plan, setPlan] = useState('trial');
  const create = useChange({
    run: () => change('POST', '/accounts', { name, plan }),
    outdated: [['/accounts']],
    done: 'The account is created.',
    onDone: onClose,
  });
  return (
    <FormDialog
      title="Create an account"
      action="Create"
      isPending={create.isPending}
      onSubmit={create.mutate}
      onClose={onClose}
    >
      <NameField name={name} onChange={setName} />
      <NativeSelect
        label="Plan"
        description="Sets the limit of requests, unless the account has its own"
        data={['trial', 'pro']}
        value={plan}
        onChange={({ currentTarget }) => setPlan(currentTarget.value)}
      />
    </FormDialog>
  );
}

function SetLimit({ account, onClose }: { account: Account; onClose: () => void }) {
  const [limit, setLimit] = useState(
    typeof account.limit === 'number' ? String(account.limit) : '',
  );
  const save = useChange({
    run: () =>
      change('PUT', `/accounts/${account.id}`, {
        requestLimit: limit.trim() === '' ? null : Number(limit),
      }),
    outdated: [['/accounts']],
    done: 'The limit is set.',
    onDone: onClose,
  });
  return (
    <FormDialog
      title={`Limit of ${account.name}`}
      action="Set the limit"
      isPending={save.isPending}
      onSubmit={save.mutate}
      onClose={onClose}
    >
      <TextInput
        label="Requests per minute"
        description="Empty: unlimited"
        inputMode="numeric"
        pattern="[0-9]*"
        data-autofocus
        value={limit}
        onChange={({ currentTarget }) => setLimit(currentTarget.value)}
      />
    </FormDialog>
  );
}
