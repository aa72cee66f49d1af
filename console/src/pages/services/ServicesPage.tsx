// Services: their addresses, healthy replicas, requests, rule and cost; one opens with its replicas and events.
import { Button } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate, useRouterState } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useSession } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { formatMoney, formatNumber, UNKNOWN } from '../../ui/format'
import { CopyButton, Empty, Page, Panel } from '../../ui/Page'
import { ServerText } from '../../ui/ServerText'
import { State } from '../../ui/State'
import { type Column, Table } from '../../ui/Table'
import { RemoveDialog } from './RemoveDialog'
import { ScaleDialog } from './ScaleDialog'
import { ServicePanel } from './ServicePanel'
import {
  findState,
  findTarget,
  findWhy,
  formatAnswerTime,
  formatRate,
  listServices,
  makeAddress,
  type Service,
  sumServices,
} from './services'
import './services.css'

/** Requests come without an event. */
const REFRESH_MS = 5000
const MICRO = 1e6

export function ServicesPage() {
  const { t } = useTranslation('services')
  const client = useQueryClient()
  const [chosen, choose] = useChosen()
  const [scaled, setScaled] = useState<Service | null>(null)
  const [removed, setRemoved] = useState<Service | null>(null)
  const found = useQuery({ queryKey: ['services'], queryFn: listServices, refetchInterval: REFRESH_MS })
  const services = found.data ?? []
  const open = services.find((service) => service.id === chosen || service.name === chosen)
  const mayChange = useMayChange()
  const renew = () => void client.invalidateQueries({ queryKey: ['services'] })
  const sum = sumServices(services)
  const sentence =
    found.data &&
    (services.length === 0
      ? t('factNone')
      : t('fact', {
          count: services.length,
          ready: formatNumber(sum.ready),
          desired: formatNumber(sum.desired),
          rate: formatRate(sum.perSecond),
        }))
  const acts = (service: Service) =>
    mayChange(service) &&
    service.state === 'active' && (
      <span className="row services-acts">
        <Button
          size="compact-xs"
          variant="default"
          aria-label={`${t('scale')} ${service.name}`}
          onClick={() => setScaled(service)}
        >
          {t('scale')}
        </Button>
        <Button
          size="compact-xs"
          variant="default"
          aria-label={`${t('stop')} ${service.name}`}
          onClick={() => setRemoved(service)}
        >
          {t('stop')}
        </Button>
      </span>
    )
  const columns = useColumns(open?.id ?? null, choose, acts)
  const command = open === undefined ? 'gpupool service list' : `gpupool service show ${open.name}`
  return (
    <Page title={t('title')} sentence={sentence} command={command}>
      <div className="grid">
        <Panel title={t('services')} hint={t('servicesHint')}>
          <Answer query={found}>
            {found.isSuccess && services.length === 0 && <FirstSteps />}
            {services.length > 0 && (
              <Table label={t('services')} columns={columns} rows={services} rowKey={(service) => service.id} />
            )}
          </Answer>
        </Panel>
        {open && <ServicePanel key={open.id} service={open} />}
      </div>
      {scaled && (
        <ScaleDialog
          service={scaled}
          onDone={() => {
            setScaled(null)
            renew()
          }}
          onClose={() => setScaled(null)}
        />
      )}
      {removed && (
        <RemoveDialog
          service={removed}
          onDone={() => {
            setRemoved(null)
            renew()
          }}
          onClose={() => setRemoved(null)}
        />
      )}
    </Page>
  )
}

/** The service that is open, which the address keeps by its id or name. */
function useChosen(): [string | undefined, (service: string | undefined) => void] {
  const navigate = useNavigate()
  const chosen = useRouterState({ select: (state) => (state.location.search as { service?: string }).service })
  const choose = (service: string | undefined) =>
    void navigate({ to: '.', search: { service } as never, replace: true, resetScroll: false })
  return [chosen, choose]
}

/** Whether the viewer may change a service: the owner and managers of its tenant may. */
function useMayChange(): (service: Service) => boolean {
  const session = useSession().data
  const permissions = session?.permissions ?? []
  if (!permissions.includes('run')) return () => false
  return (service) => permissions.includes('manage-tenant') || service.user === session?.user
}

function FirstSteps() {
  const { t } = useTranslation('services')
  return (
    <Empty>
      <p>{t('none')}</p>
      <pre className="mono services-line">
        gpupool template run vllm --model /models/llama --name chat --min 1 --max 4
      </pre>
      <p>{t('noneOther')}</p>
      <pre className="mono services-line">
        {'gpupool service create web --min 1 --max 4 -- --gpu 0.25 -- python serve.py {port}'}
      </pre>
    </Empty>
  )
}

function useColumns(
  chosen: string | null,
  choose: (service: string | undefined) => void,
  acts: (service: Service) => ReactNode,
): Column<Service>[] {
  const { t } = useTranslation('services')
  const sayRule = ({ rule }: Service) =>
    rule.min_replicas === rule.max_replicas
      ? t('ruleFixed', { replicas: formatNumber(rule.min_replicas) })
      : t('ruleRange', { least: formatNumber(rule.min_replicas), most: formatNumber(rule.max_replicas) })
  return [
    {
      title: t('name'),
      cell: (service) => (
        <>
          <Button
            size="compact-xs"
            variant="subtle"
            px={0}
            aria-expanded={service.id === chosen}
            onClick={() => choose(service.id === chosen ? undefined : service.id)}
          >
            {service.name}
          </Button>
          <br />
          <span className="small sub services-owner">{`${service.tenant} / ${service.user}`}</span>
          {service.template && <div className="small sub word">{service.template}</div>}
        </>
      ),
    },
    {
      title: t('health'),
      cell: (service) => (
        <>
          <span className="row wrap">
            <State state={findState(service)} />
            <span className="num nowrap">
              {t('healthOf', { ready: formatNumber(service.ready), desired: formatNumber(service.desired) })}
            </span>
          </span>
          {findState(service) !== 'ready' && (
            <div className="small sub word services-why">
              <ServerText text={findWhy(service.explain)} />
            </div>
          )}
        </>
      ),
    },
    {
      title: t('address'),
      minor: true,
      cell: (service) => (
        <span className="row">
          <code className="mono word">{service.path}</code>
          <CopyButton text={makeAddress(service, location.origin)} label={t('copyAddress', { name: service.name })} />
        </span>
      ),
    },
    {
      title: t('rate'),
      right: true,
      cell: (service) => (
        <>
          {formatRate(service.recent?.per_second)}
          {service.recent && service.recent.errors > 0 && (
            <div className="small services-errors nowrap">{t('errors', { count: service.recent.errors })}</div>
          )}
          {service.waiting > 0 && (
            <div className="small sub nowrap">{t('waitingCount', { count: service.waiting })}</div>
          )}
        </>
      ),
    },
    {
      title: t('times'),
      right: true,
      cell: (service) => (
        <>
          <span className="nowrap">{formatAnswerTime(service.recent?.p50_seconds)}</span>
          <div className="small sub nowrap">{formatAnswerTime(service.recent?.p95_seconds)}</div>
        </>
      ),
    },
    {
      title: t('rule'),
      minor: true,
      cell: (service) => (
        <>
          <span className="nowrap">{sayRule(service)}</span>
          <div className="small sub">
            {t(`each.${service.rule.measure}`, { target: formatNumber(findTarget(service.rule)) })}
          </div>
        </>
      ),
    },
    {
      title: t('cost'),
      right: true,
      minor: true,
      cell: (service) => (
        <span className="nowrap">
          {service.cost_per_hour_micro === null || service.cost_per_hour_micro === undefined
            ? UNKNOWN
            : formatMoney(service.cost_per_hour_micro / MICRO, service.currency ?? '')}
        </span>
      ),
    },
    { title: '', cell: acts },
  ]
}
