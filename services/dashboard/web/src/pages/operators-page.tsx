import '@mantine/core/styles/Popover.css';
import '@mantine/core/styles/Menu.css';
import { Badge, Button, Group, Menu } from '@mantine/core';
import { lazy, type ReactNode, Suspense, useState } from 'react';
import { change } from '../api/request.ts';
import type { Operator } from '../api/types.ts';
import { useChange } from '../api/use-change.ts';
import { useList } from '../api/use-get.ts';
import { useUrl } from '../lib/use-url.ts';
import { confirm } from '../parts/confirm.tsx';
import { Empty } from '../parts/empty.tsx';
import { type Column, List } from '../parts/list.tsx';
import { Page } from '../parts/page.tsx';
import { SecretDialog } from '../parts/secret-dialog.tsx';
import { Ago } from '../parts/time.tsx';
import { useSession } from '../shell/session.ts';
import type { AccessTarget } from './operators/access-form.tsx';
import { OpenLinks } from './operators/open-links.tsx';
import { LINKS_PATH, TOKENS_PATH } from './operators/paths.ts';
import { Tokens } from './operators/tokens.tsx';

const AccessForm = lazy(async () => ({
  default: (await import('./operators/access-form.tsx')).AccessForm,
}));

const PATH = '/operators';
const MAX_ACCOUNTS = 100;

/** Lists operators, invites them, and changes what they may do. */
export function OperatorsPage() {
  const { search } = useUrl<'cursor'>();
  const query = useList(PATH, { cursor: search.cursor });
  const accounts = useList('/accounts', { limit: MAX_ACCOUNTS }).data?.items ?? [];
  const [target, setTarget] = useState<AccessTarget>();
  const [link, setLink] = useState<string>();
  const nameAccount = (id: string) => accounts.find((one) => one.id === id)?.name ?? id;
  const columns = listColumns(nameAccount, (operator) => (
    <OperatorMenu
      operator={operator}
      onLink={setLink}
      onAccess={() => setTarget({ kind: 'change', operator })}
    />
  ));
  return (
    <Page
      title="Operators"
      description="Who may use this console, and what for."
      actions={
        <Button size="xs" onClick={() => setTarget({ kind: 'invite' })}>
          Invite an operator
        </Button>
      }
    >
      <List
        query={query}
        columns={columns}
        idOf={({ id }) => id}
        isPaged
        empty={<Empty title="No operators">Invite the first one.</Empty>}
      />
      <OpenLinks nameAccount={nameAccount} />
      <Tokens accounts={accounts} nameAccount={nameAccount} />
      {target !== undefined && (
        <Suspense>
          <AccessForm
            target={target}
            accounts={accounts}
            onClose={() => setTarget(undefined)}
            onLink={setLink}
          />
        </Suspense>
      )}
      <SecretDialog
        title="One-time link"
        note="Give it to the operator. It works once and for an hour, and is not shown again."
        secret={link === undefined ? undefined : completeLink(link)}
        onClose={() => setLink(undefined)}
      />
    </Page>
  );
}

/** A server without CONSOLE_URL gives the path only. */
function completeLink(link: string): string {
  return new URL(link, location.origin).href;
}

function listColumns(
  nameAccount: (id: string) => string,
  renderMenu: (operator: Operator) => ReactNode,
): Column<Operator>[] {
  return [
    {
      accessor: 'name',
      title: 'Operator',
      render: ({ name, disabled }) => (
        <Group gap="xs">
          {name}
          {disabled && (
            <Badge size="sm" variant="outline" color="gray" c="var(--mantine-color-text)" tt="none">
              Disabled
            </Badge>
          )}
        </Group>
      ),
    },
    { accessor: 'role', title: 'Role' },
    {
      accessor: 'accounts',
      title: 'Accounts',
      render: ({ accounts: own }) => (own === 'all' ? 'all' : own.map(nameAccount).join(', ')),
    },
    {
      accessor: 'login',
      title: 'Logs in by',
      render: ({ login }) => (login === 'openid' ? 'single sign-on' : 'password'),
    },
    {
      accessor: 'lastLoginAt',
      title: 'Last login',
      render: ({ lastLoginAt }) => <Ago at={lastLoginAt} />,
    },
    { accessor: 'id', title: 'Actions', textAlign: 'right', render: renderMenu },
  ];
}

interface OperatorMenuProps {
  operator: Operator;
  onLink: (link: string) => void;
  onAccess: () => void;
}

function OperatorMenu({ operator, onLink, onAccess }: OperatorMenuProps) {
  const { id, name, disabled, login } = operator;
  const isSelf = useSession().operator.id === id;
  // Links and tokens end with the access of their makers.
  const outdated = [[PATH], [LINKS_PATH], [TOKENS_PATH]];
  const setDisabled = useChange({
    run: () => change('PUT', `${PATH}/${id}`, { disabled: !disabled }),
    outdated,
    done: disabled
      ? 'The operator may log in again.'
      : 'The operator is disabled, its sessions, links and tokens have ended.',
  });
  const makeLink = useChange({
    run: () => change('POST', `${PATH}/${id}/password-link`),
    outdated: [[LINKS_PATH]],
    onDone: ({ link }) => onLink(link),
  });
  const remove = useChange({
    run: () => change('DELETE', `${PATH}/${id}`),
    outdated,
    done: 'The operator is removed.',
  });
  const askRemoval = () =>
    confirm({
      title: `Remove ${name}?`,
      text: 'Its sessions and the links and tokens that it has made end at once. Its entries in the audit log stay.',
      action: 'Remove',
      onConfirm: () => remove.mutate(),
    });
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button size="compact-xs" variant="default" aria-label={`Change ${name}`}>
          Change
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={onAccess}>Role and accounts</Menu.Item>
        {login === 'password' && (
          <Menu.Item onClick={() => makeLink.mutate()}>Link for a new password</Menu.Item>
        )}
        {!isSelf && (
          <>
            <Menu.Item onClick={() => setDisabled.mutate()}>
              {disabled ? 'Enable' : 'Disable'}
            </Menu.Item>
            <Menu.Item c="var(--mantine-color-error)" onClick={askRemoval}>
              Remove
            </Menu.Item>
          </>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}
