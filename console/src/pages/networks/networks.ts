/** Networks as the API has them, and what a viewer types about them. */
import { request } from '../../api/client'
import { apiPath } from '../../api/lists'
import type { components } from '../../api/schema'

type Schemas = components['schemas']
export type Network = Schemas['NetworkOut']
export type Engine = Schemas['NetworkEngineOut']
export type Pair = Schemas['GatewayPairOut']
export type Group = Schemas['SecurityGroupOut']
export type GroupRule = Schemas['SecurityRuleOut']
export type GroupRuleBody = Schemas['SecurityRuleIn']
export type Balancer = Schemas['LoadBalancerOut']
export type Limits = Schemas['BandwidthLimitsOut']
export type Reach = Schemas['ReachOut']
export type NetworkQuota = Schemas['NetworkQuotaOut']

/** One network among those of all tenants. */
export const keyOf = (network: Pick<Network, 'tenant' | 'name'>): string => `${network.tenant}/${network.name}`

/** A path below a network; an admin names the tenant, in which names are unique. */
export function networkPath(network: Pick<Network, 'tenant' | 'name'>, ...parts: string[]): string {
  return `${apiPath('networks', network.name, ...parts)}?${new URLSearchParams({ tenant: network.tenant })}`
}

/** A list below a network. */
export const listOf = <Row>(network: Network, part: string): Promise<Row[]> =>
  request<Row[]>(networkPath(network, part))

/** Ports of a rule as people write them: `443`, `8000-8100`, nothing for all. */
export function writePorts(rule: Pick<GroupRule, 'first_port' | 'last_port'>): string {
  if (rule.first_port == null) return ''
  const last = rule.last_port ?? rule.first_port
  return last === rule.first_port ? `${last}` : `${rule.first_port}-${last}`
}

const HIGHEST_PORT = 65_535

/** Ports as they are typed; null: no ports. Nothing typed is every port. */
export function parsePorts(text: string): Pick<GroupRuleBody, 'first_port' | 'last_port'> | null {
  const typed = text.trim()
  if (typed === '') return { first_port: null, last_port: null }
  const found = /^(\d{1,5})(?:\s*-\s*(\d{1,5}))?$/.exec(typed)
  if (found === null) return null
  const first = Number(found[1])
  const last = Number(found[2] ?? found[1])
  return first >= 1 && first <= last && last <= HIGHEST_PORT ? { first_port: first, last_port: last } : null
}

const KBIT_PER_MBIT = 1000

/** A rate of the API in Mbit/s; null: no limit. */
export const toMbit = (kbit: number | null | undefined): number | null => (kbit == null ? null : kbit / KBIT_PER_MBIT)

/** Addresses of all subnets of a network. */
export function sumAddresses(network: Network): { used: number; free: number } {
  return network.subnets.reduce((sum, subnet) => ({ used: sum.used + subnet.used, free: sum.free + subnet.free }), {
    used: 0,
    free: 0,
  })
}
