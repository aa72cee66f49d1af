// Security groups: what reaches their members.
import { Button, Select, TextInput } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { send } from '../../api/lists'
import { Answer } from '../../ui/Answer'
import { FormDialog } from '../../ui/FormDialog'
import { formatNumber } from '../../ui/format'
import { Empty, Fact } from '../../ui/Page'
import { type Column, Table } from '../../ui/Table'
import { type Group, type GroupRule, listOf, type Network, networkPath, parsePorts, writePorts } from './networks'

type Open =
  | { act: 'create' }
  | { act: 'delete' | 'allow'; group: Group }
  | { act: 'revoke'; group: Group; rule: GroupRule }

export function Groups({ network, mayChange }: { network: Network; mayChange: boolean }) {
  const { t } = useTranslation('networks')
  const client = useQueryClient()
  const [open, setOpen] = useState<Open | null>(null)
  const groups = useQuery({
    queryKey: ['networks', network.id, 'groups'],
    queryFn: () => listOf<Group>(network, 'security-groups'),
  })
  const close = () => setOpen(null)
  const done = () => {
    close()
    void client.invalidateQueries({ queryKey: ['networks', network.id] })
  }
  const wordsOf = (rule: GroupRule) => {
    const words = { protocol: rule.protocol, ports: writePorts(rule), source: rule.source ?? t('anywhere') }
    return t(words.ports === '' ? 'ruleAll' : 'rulePorts', words)
  }
  const columns: Column<Group>[] = [
    { title: t('name'), cell: (group) => <span className="strong">{group.name}</span> },
    { title: t('members'), right: true, cell: (group) => formatNumber(group.jobs) },
    {
      title: t('allowed'),
      cell: (group) => (
        <ul className="plain">
          <li className="sub small">{t('ownMembers')}</li>
          {group.rules.map((rule) => (
            <li key={rule.id} className="row tight wrap">
              <span>{wordsOf(rule)}</span>
              {mayChange && (
                <Button
                  size="compact-xs"
                  variant="subtle"
                  aria-label={t('revokeRule', { rule: wordsOf(rule) })}
                  onClick={() => setOpen({ act: 'revoke', group, rule })}
                >
                  ×
                </Button>
              )}
            </li>
          ))}
        </ul>
      ),
    },
  ]
  if (mayChange) {
    columns.push({
      title: <span className="sr">{t('acts')}</span>,
      right: true,
      cell: (group) => (
        <span className="acts">
          {(['allow', 'delete'] as const).map((act) => (
            <Button
              key={act}
              size="compact-xs"
              variant="default"
              aria-label={`${t(`${act}`)} ${group.name}`}
              onClick={() => setOpen({ act, group })}
            >
              {t(`${act}`)}
            </Button>
          ))}
        </span>
      ),
    })
  }
  const rows = groups.data ?? []
  return (
    <>
      {mayChange && (
        <div className="row filters">
          <Button size="xs" variant="default" onClick={() => setOpen({ act: 'create' })}>
            {t('newGroup')}
          </Button>
        </div>
      )}
      <Answer query={groups}>
        {groups.isSuccess && rows.length === 0 && <Empty>{t('noGroups')}</Empty>}
        {rows.length > 0 && <Table label={t('groups')} columns={columns} rows={rows} rowKey={(group) => group.id} />}
      </Answer>
      {open?.act === 'create' && <GroupDialog network={network} onDone={done} onClose={close} />}
      {open?.act === 'allow' && <RuleDialog network={network} group={open.group} onDone={done} onClose={close} />}
      {open?.act === 'delete' && (
        <FormDialog
          title={t('deleteGroupTitle', { name: open.group.name })}
          confirm={t('deleteGroupNow')}
          danger
          act={() => send('DELETE', networkPath(network, 'security-groups', open.group.name))}
          onDone={done}
          onClose={close}
        >
          {() => (
            <>
              <dl className="facts left">
                <Fact name={t('members')}>{formatNumber(open.group.jobs)}</Fact>
                <Fact name={t('rules')}>{formatNumber(open.group.rules.length)}</Fact>
              </dl>
              <p className="small">{t('deleteGroupText')}</p>
            </>
          )}
        </FormDialog>
      )}
      {open?.act === 'revoke' && (
        <FormDialog
          title={t('revokeTitle', { name: open.group.name })}
          confirm={t('revokeNow')}
          danger
          act={() => send('DELETE', networkPath(network, 'security-groups', open.group.name, 'rules', open.rule.id))}
          onDone={done}
          onClose={close}
        >
          {() => <p className="small">{t('revokeText', { rule: wordsOf(open.rule), count: open.group.jobs })}</p>}
        </FormDialog>
      )}
    </>
  )
}

interface DialogProps {
  readonly network: Network
  onDone(): void
  onClose(): void
}

function GroupDialog({ network, onDone, onClose }: DialogProps) {
  const { t } = useTranslation('networks')
  const [name, setName] = useState('')
  return (
    <FormDialog
      title={t('newGroup')}
      confirm={t('createGroup')}
      isReady={name.trim() !== ''}
      fieldOfCode={{ 'GP-1003': 'name', 'GP-2006': 'name' }}
      act={() => send('POST', networkPath(network, 'security-groups'), { name: name.trim() })}
      onDone={onDone}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <p className="small sub">{t('groupText')}</p>
          <TextInput
            label={t('name')}
            value={name}
            data-autofocus
            error={problem('name')}
            onChange={(event) => setName(event.currentTarget.value)}
          />
        </>
      )}
    </FormDialog>
  )
}

const PROTOCOLS = ['tcp', 'udp', 'icmp', 'any'] as const

function RuleDialog({ network, group, onDone, onClose }: DialogProps & { group: Group }) {
  const { t } = useTranslation('networks')
  const [protocol, setProtocol] = useState<string>('tcp')
  const [typed, setTyped] = useState('')
  const [source, setSource] = useState('')
  const hasPorts = protocol === 'tcp' || protocol === 'udp'
  const ports = hasPorts ? parsePorts(typed) : { first_port: null, last_port: null }
  return (
    <FormDialog
      title={t('allowTitle', { name: group.name })}
      confirm={t('allowNow')}
      isReady={ports !== null}
      fieldOfCode={{ 'GP-1060': 'source' }}
      act={() =>
        send('POST', networkPath(network, 'security-groups', group.name, 'rules'), {
          protocol,
          ...ports,
          source: source.trim() || null,
        })
      }
      onDone={onDone}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <Select
            label={t('protocol')}
            allowDeselect={false}
            data={PROTOCOLS.map((value) => ({ value, label: value === 'any' ? t('anyProtocol') : value }))}
            value={protocol}
            onChange={(value) => setProtocol(value ?? protocol)}
          />
          <TextInput
            label={t('ports')}
            description={t('portsHint')}
            disabled={!hasPorts}
            value={typed}
            error={ports === null ? t('notPorts') : (problem('first_port') ?? problem('last_port'))}
            onChange={(event) => setTyped(event.currentTarget.value)}
          />
          <TextInput
            label={t('source')}
            description={t('sourceHint')}
            value={source}
            error={problem('source')}
            onChange={(event) => setSource(event.currentTarget.value)}
          />
        </>
      )}
    </FormDialog>
  )
}
